"""Brightness of colours."""

from __future__ import annotations

from torch import Tensor

RED, GREEN, BLUE = 0.299, 0.587, 0.114


def luminance(x: Tensor) -> Tensor:
    """Grey of colour images by the weights of ITU-R BT.601, (N, 3, H, W) to (N, 1, H, W); grey ones are copied."""
    if x.shape[1] == 1:
        return x.clone()
    return (x[:, :1] * RED).add_(x[:, 1:2], alpha=GREEN).add_(x[:, 2:], alpha=BLUE)
