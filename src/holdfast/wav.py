"""WAV files: numbers in [-1, 1] at a rate, read from strangers within the budget, and written."""

from __future__ import annotations

import io
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import files
from holdfast.arrays import one_error
from holdfast.budget import require_budget
from holdfast.errors import DataError, HoldfastError

WIDTHS = (1, 2, 3, 4)
"""Bytes of a sample."""
PER_SAMPLE = 24
"""Bytes of a sample in memory at most: as stored, as a whole number, and as a float."""
MOST_CHANNELS = 64
FULL_SCALE = 2**15
"""By which 16-bit samples are divided."""


@dataclass(frozen=True, eq=False)
class Wav:
    """A sound.

    Args:
        samples: (L,) in [-1, 1]; several channels are averaged.
        rate: samples per second.
    """

    samples: NDArray[np.float64]
    rate: int


def read_wav(content: bytes, what: str, *, error: type[HoldfastError] = DataError) -> Wav:
    """The sound in the content of a WAV file: PCM of 8, 16, 24 or 32 bits.

    Args:
        content: of the file.
        what: its name, for messages.
        error: what to raise.

    Raises:
        HoldfastError: of the type `error`, if it is none, is damaged or shorter than its header says, or does not fit.
    """
    with one_error(f"{what}: expected a WAV file with PCM of 8, 16, 24 or 32 bits", error):
        try:
            with wave.open(io.BytesIO(content)) as file:
                header = file.getparams()
                _require_sound(header)
                _require_size(header, len(content))
                require_budget(PER_SAMPLE * header.nframes * header.nchannels, what, error=error)
                stored = file.readframes(header.nframes)
        except wave.Error as problem:
            raise ValueError(str(problem)) from problem
        _require_size(header, len(stored))
        samples = decoded(stored, header.sampwidth).reshape(header.nframes, header.nchannels)
        return Wav(samples.mean(1), header.framerate)


def write_wav(path: Path, sound: Wav) -> None:
    """Write a sound as 16-bit PCM, whole or not at all; values beyond full scale are cut off there."""
    with files.replacing(path) as file:
        file.write(wav_bytes(sound))


def wav_bytes(sound: Wav) -> bytes:
    """The content of a WAV file of 16-bit PCM."""
    steps = np.rint(sound.samples * FULL_SCALE).clip(-FULL_SCALE, FULL_SCALE - 1).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sound.rate)
        file.writeframes(steps.tobytes())
    return buffer.getvalue()


def decoded(stored: bytes, width: int) -> NDArray[np.float64]:
    """Samples of so many bytes, little-endian, in [-1, 1): unsigned if they have one byte, signed otherwise."""
    if width == 1:
        return (np.frombuffer(stored, np.uint8) - 128.0) / 128
    padded = np.zeros((len(stored) // width, 4), np.uint8)  # the high bytes of 32-bit numbers
    padded[:, 4 - width :] = np.frombuffer(stored, np.uint8).reshape(-1, width)
    numbers: NDArray[Any] = padded.view("<i4")[:, 0]
    return numbers / 2.0**31


def _require_sound(header: Any) -> None:
    """Refuse a header that describes no sound."""
    is_sound = header.sampwidth in WIDTHS and 1 <= header.nchannels <= MOST_CHANNELS and header.framerate >= 1
    if not is_sound or header.nframes < 1:
        bits, channels = 8 * header.sampwidth, header.nchannels
        raise ValueError(f"got {header.nframes} of {bits} bits in {channels} channels, {header.framerate} per second")


def _require_size(header: Any, available: int) -> None:
    """Refuse a header that states more than there is."""
    size = header.nchannels * header.sampwidth
    if header.nframes * size > available:
        raise ValueError(f"got {available} bytes, where the header states {header.nframes} samples of {size} bytes")
