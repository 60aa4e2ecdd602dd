"""What images must be before a corruption by kind and severity can work on them."""

from __future__ import annotations

from torch import Tensor

from holdfast.errors import DataError

SMALLEST = 8
"""Pixels that a side must have."""


def check_images(x: Tensor, method: str) -> None:
    """Refuse what is no batch of images with one channel or three, in floating point and large enough.

    Args:
        x: what came.
        method: who asks, for the message.
    """
    if x.ndim != 4 or x.shape[1] not in (1, 3):
        raise DataError(f"{method}: expected images (N, 1 or 3, height, width), got shape {tuple(x.shape)}")
    if min(x.shape[-2:]) < SMALLEST:
        raise DataError(f"{method}: expected sides of at least {SMALLEST} pixels, got {x.shape[-2]}x{x.shape[-1]}")
    if not x.is_floating_point():
        raise DataError(f"{method}: expected floating-point images in [0, 1], got {x.dtype}")
