"""Pictures of waveforms: what lies between the lowest and the highest sample of each column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

WIDTH, HEIGHT = 192, 64
"""Pixels."""
MIDDLE, INK = 200, 0
"""Greys of the line of silence and of the waveform, on white."""


def is_waveform(image: NDArray[np.floating]) -> bool:
    """Whether an input (C, H, W) is a sound: one channel and one row."""
    return image.shape[:2] == (1, 1)


def picture_of_waveform(samples: NDArray[np.floating]) -> Image.Image:
    """Samples (L,) in [0, 1] from left to right, 1 at the top; values outside look like 0 and 1."""
    low, high = envelope(samples.clip(0, 1), WIDTH)
    rows = np.arange(HEIGHT)[:, None]
    pixels = np.full((HEIGHT, WIDTH), 255, np.uint8)
    pixels[HEIGHT // 2] = MIDDLE
    pixels[(rows >= _row(high)) & (rows <= _row(low))] = INK
    return Image.fromarray(pixels)


def envelope(samples: NDArray[np.floating], columns: int) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """The lowest and the highest sample of each column; columns reach as far as the one before, without gaps."""
    starts = np.arange(columns) * len(samples) // columns
    low, high = np.minimum.reduceat(samples, starts), np.maximum.reduceat(samples, starts)
    return (
        np.append(low[:1], np.minimum(low[1:], high[:-1])),
        np.append(high[:1], np.maximum(high[1:], low[:-1])),
    )


def _row(values: NDArray[np.floating]) -> NDArray[np.intp]:
    rows: NDArray[np.intp] = np.rint((1 - values) * (HEIGHT - 1)).astype(np.intp)
    return rows
