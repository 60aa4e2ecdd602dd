"""Places in an image, numbers drawn for it, and images sampled elsewhere.

Places and drawn numbers are in float64, so that what depends on them by a comparison (which pixel lies in which cell)
comes out the same in every batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.rng import Streams


def precise(x: Tensor) -> torch.dtype:
    """float64, or float32 on Apple's GPUs, which have no float64."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def side(x: Tensor) -> int:
    """The shorter side in pixels, the unit of all lengths."""
    return min(x.shape[-2:])


def aspect(x: Tensor) -> float:
    """The area in squares of the shorter side."""
    return max(x.shape[-2:]) / side(x)


def pixels(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (H, 1) and columns (1, W), counted from 0."""
    rows, columns = (torch.arange(size, dtype=precise(x), device=x.device) for size in x.shape[-2:])
    return rows[:, None], columns[None]


def uniform(rng: Streams, x: Tensor, count: int, low: float = 0.0, high: float = 1.0) -> list[Tensor]:
    """`count` numbers for each image, uniform in [low, high), each (N, 1, 1)."""
    drawn = rng.uniform(x.new_empty((len(x), count), dtype=precise(x)))
    return [column[:, None, None] for column in drawn.mul_(high - low).add_(low).unbind(1)]


def angle(rng: Streams, x: Tensor) -> Tensor:
    """A uniform direction for each image, (N, 1, 1)."""
    return uniform(rng, x, 1, 0, 2 * math.pi)[0]


def sample(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Images with the values that they have at other places, linear between pixels and black outside.

    Args:
        x: (N, C, H, W).
        rows: where each pixel's value comes from, in pixels, broadcast to (N, H, W).
        columns: the same along the other axis.
    """
    height, width = x.shape[-2:]
    shape = (len(x), height, width)
    grid = torch.stack(
        ((2 * columns / (width - 1) - 1).expand(shape), (2 * rows / (height - 1) - 1).expand(shape)), dim=-1
    )
    moved = F.grid_sample(x, grid.to(x.dtype), mode="bilinear", padding_mode="zeros", align_corners=True)
    return moved.clamp_(0, 1)  # four weights sum to 1 up to rounding only


def combined_cover(count: int, cover: Callable[[int], Tensor]) -> Tensor:
    r"""The combined cover of several layers, :math:`1 - \prod_i (1 - a_i)`, where layer i alone covers `cover(i)`."""
    clear = 1 - cover(0)
    for layer in range(1, count):
        clear *= 1 - cover(layer)
    return 1 - clear
