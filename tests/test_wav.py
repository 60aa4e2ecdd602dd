"""WAV files of every width, damaged ones, and what is written."""

from __future__ import annotations

import io
import struct
import wave
from pathlib import Path

import numpy as np
import pytest

from holdfast.errors import DataError
from holdfast.wav import Wav, decoded, read_wav, wav_bytes, write_wav

SHARES = np.array([-1.0, -0.5, 0.0, 0.25, 0.5])


def pcm(samples: np.ndarray, width: int = 2, channels: int = 1, rate: int = 8000) -> bytes:
    """A WAV file of samples in [-1, 1), written by the standard library."""
    numbers = (samples * 2.0 ** (8 * width - 1)).astype(np.int64)
    stored = (numbers + 128).astype(np.uint8) if width == 1 else numbers.astype("<i8")
    parts = stored[:, None] if width == 1 else stored.view(np.uint8).reshape(-1, 8)[:, :width]
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(parts.tobytes())
    return buffer.getvalue()


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_reads_what_the_standard_library_wrote(width: int) -> None:
    sound = read_wav(pcm(SHARES, width), "a.wav")
    assert sound.rate == 8000
    assert sound.samples.tolist() == SHARES.tolist()


def test_the_most_negative_and_the_most_positive_numbers_of_three_bytes() -> None:
    assert decoded(b"\0\0\x80\xff\xff\x7f\xff\xff\xff", 3).tolist() == [-1, 1 - 2**-23, -(2**-23)]


def test_channels_are_averaged() -> None:
    assert read_wav(pcm(np.array([0.5, 0.0, -0.25, 0.75]), 2, channels=2), "a").samples.tolist() == [0.25, 0.25]


def test_what_is_written_reads_back_and_is_cut_off_at_full_scale(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", Wav(np.array([-1.5, -1.0, 0.25, 1.0]), 16000))
    sound = read_wav((tmp_path / "a.wav").read_bytes(), "a")
    assert sound.rate == 16000
    assert sound.samples.tolist() == [-1, -1, 0.25, 1 - 2**-15]
    assert [file.name for file in tmp_path.iterdir()] == ["a.wav"]


def test_every_16_bit_number_survives() -> None:
    samples = np.arange(-(2**15), 2**15) / 2**15
    assert np.array_equal(read_wav(wav_bytes(Wav(samples, 8000)), "a").samples, samples)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "PCM of 8, 16, 24 or 32 bits"),
        (b"no sound at all", "RIFF"),
        (pcm(SHARES)[:30], "PCM"),
        (pcm(SHARES)[:-2], "the header states 5 samples of 2 bytes"),
        (pcm(SHARES)[:40] + struct.pack("<I", 2**32 - 16) + bytes(10), "the header states 2147483640 samples"),
        (pcm(SHARES[:0]), "got 0 of 16 bits in 1 channels"),
        (pcm(SHARES)[:24] + bytes(4) + pcm(SHARES)[28:], "1 channels, 0 per second"),
        (pcm(SHARES)[:20] + b"\3\0" + pcm(SHARES)[22:], "unknown format: 3"),
        (pcm(SHARES)[:34] + b"\x40\0" + pcm(SHARES)[36:], "of 64 bits"),
        (pcm(SHARES)[:22] + b"\xff\xff" + pcm(SHARES)[24:], "65535 channels"),
    ],
)
def test_damaged_files_are_one_line(content: bytes, expected: str) -> None:
    with pytest.raises(DataError, match=rf"^a\.wav: expected a WAV file .*{expected}"):
        read_wav(content, "a.wav")


def test_the_budget_is_asked_before_samples_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_MAX_BYTES", "1000")
    with pytest.raises(DataError, match=r"a\.wav: needs 2.4 kB of memory"):
        read_wav(pcm(np.zeros(100)), "a.wav")
