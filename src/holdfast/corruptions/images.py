"""Requirements on images for corruptions by kind and severity."""

from __future__ import annotations

from torch import Tensor

from holdfast.errors import DataError

SMALLEST = 8
"""Smallest number of pixels of a side."""


def check_images(x: Tensor, method: str) -> None:
    """Require a batch of floating-point images with one channel or three that are large enough.

    Args:
        x: the images.
        method: name of the corruption, for the message.
    """
    if x.ndim != 4 or x.shape[1] not in (1, 3):
        raise DataError(f"{method}: expected images (N, 1 or 3, height, width), got shape {tuple(x.shape)}")
    if min(x.shape[-2:]) < SMALLEST:
        raise DataError(f"{method}: expected sides of at least {SMALLEST} pixels, got {x.shape[-2]}x{x.shape[-1]}")
    if not x.is_floating_point():
        raise DataError(f"{method}: expected floating-point images in [0, 1], got {x.dtype}")
