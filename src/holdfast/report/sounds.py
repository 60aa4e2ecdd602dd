"""Kept examples of sound as WAV files to listen to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import LedgerError
from holdfast.files.names import safe_names
from holdfast.report.gallery import Gallery, change
from holdfast.report.waveform import is_waveform
from holdfast.wav import Wav, write_wav


def write_sounds(galleries: Sequence[Gallery], out: Path, rate: int) -> list[Path]:
    """Write each example before and after its check, and the change alone, as loud as it can be without distortion.

    Args:
        galleries: of a run; see `read_galleries`.
        out: directory, which is made.
        rate: samples per second.

    Returns:
        The files: `CHECK-EXAMPLE-original.wav`, `-changed.wav` and `-difference-xFACTOR.wav`.

    Raises:
        LedgerError: if there is anything but sound in one of them.
    """
    out.mkdir(parents=True, exist_ok=True)
    written = []
    names = safe_names([f"{gallery.check}-{gallery.weights}" for gallery in galleries])
    for name, gallery in zip(names, galleries, strict=True):
        for index, example in enumerate(gallery.example):
            parts = {
                "original": gallery.x[index],
                "changed": gallery.z[index],
                f"difference-x{gallery.factor:g}": change(gallery, index),
            }
            for part, image in parts.items():
                written.append(out / f"{name}-{example:06d}-{part}.wav")
                write_wav(written[-1], Wav(_samples(image, gallery.check), rate))
    return written


def _samples(image: NDArray[np.floating], check: str) -> NDArray[np.float64]:
    """Samples in [-1, 1] of an input in [0, 1]."""
    if not is_waveform(image):
        raise LedgerError(f"{check}: expected sounds of shape (1, 1, L), got images of shape {image.shape}")
    samples: NDArray[np.float64] = 2 * image[0, 0].astype(np.float64) - 1
    return samples
