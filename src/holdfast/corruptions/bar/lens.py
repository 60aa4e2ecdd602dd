r"""Camera faults: a camera that turns, and a lens that enlarges each colour differently.

Both treat the image as a cubic spline, a sum of B-splines :math:`\sum_k c_k\, \beta(p - k)` mirrored at the edges.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.corruptions.bar.geometry import pixels, precise
from holdfast.rng import Streams

STEPS = 21
"""Number of turned images in a blur."""

_BLOCK = 1 << 12
"""Pixels worked on at a time: bounds the memory of their bags."""


def circular_motion_blur(x: Tensor, level: float, rng: Streams) -> Tensor:
    r"""Mean of the image turned by 21 angles :math:`u\,\theta`, :math:`u \in [-1, 1]`, of weights :math:`e^{-2 u^2}`.

    :math:`\theta = 1.5\,s` degrees. Turning is about the middle, by the spline that goes through the pixels; outside is
    black. Nothing is random.
    """
    position = torch.linspace(-1, 1, STEPS, dtype=torch.float64)
    weight = torch.exp(-2 * position.square())
    return turned(x, position * math.radians(1.5 * level), weight / weight.sum()).clamp_(0, 1)


def turned(x: Tensor, angles: Tensor, shares: Tensor) -> Tensor:
    """Sum of images turned about their middle by each angle, times its share; black outside of them."""
    height, width = x.shape[-2:]
    splines = coefficients(height).to(x) @ x @ coefficients(width).to(x).T
    # Every pixel is a bag of coefficients, 16 for an angle; planes lie side by side so that one look-up serves all.
    planes = splines.flatten(0, 1).flatten(1).T.contiguous()
    rows, columns = (line[..., None] - (line.numel() - 1) / 2 for line in pixels(x))
    cosine, sine = (function(angles).to(rows) for function in (torch.cos, torch.sin))
    parts = []
    for block in torch.split(rows, max(1, _BLOCK // width)):
        down = (cosine * block + sine * columns + (height - 1) / 2).flatten(0, 1)
        right = (cosine * columns - sine * block + (width - 1) / 2).flatten(0, 1)
        inside = (down >= 0) & (down <= height - 1) & (right >= 0) & (right <= width - 1)
        (above, vertical), (before, horizontal) = taps(down, height), taps(right, width)
        places = above[..., :, None] * width + before[..., None, :]
        counts = vertical[..., :, None] * horizontal[..., None, :] * (inside * shares.to(rows))[..., None, None]
        parts.append(F.embedding_bag(places.flatten(1), planes, per_sample_weights=counts.flatten(1).to(x), mode="sum"))
    return torch.cat(parts).T.reshape(x.shape)


@lru_cache(maxsize=64)
def coefficients(size: int) -> Tensor:
    """Matrix from pixels to B-spline coefficients, (size, size): the inverse of the splines at the pixels."""
    inverse: Tensor = torch.linalg.inv(weights(torch.arange(size, dtype=torch.float64), size))
    return inverse


def transverse_chromatic_abberation(x: Tensor, level: float, rng: Streams) -> Tensor:
    r"""The three colours are enlarged by :math:`1`, :math:`1 + 0.025\,s` and :math:`1 + 0.05\,s`, in random order.

    The published function takes pixels for spline coefficients, so that all of them are smoothed a little too, also by
    the factor 1. A grey image counts as three equal colours; its channel becomes their mean.
    """
    factors = (1, 1 + 0.025 * level, 1 + 0.05 * level)
    rows, columns = (torch.stack([enlargement(size, f) for f in factors]).to(x) for size in x.shape[-2:])
    if x.shape[1] == 1:
        return (rows @ x @ columns.mT).mean(1, keepdim=True).clamp_(0, 1)
    order = rng.uniform(x.new_empty((len(x), 3), dtype=precise(x))).argsort(1)
    z = [rows[order[:, c]] @ x[:, c] @ columns[order[:, c]].mT for c in range(3)]
    return torch.stack(z, dim=1).clamp_(0, 1)  # weights sum to 1 up to rounding only


@lru_cache(maxsize=256)
def enlargement(size: int, factor: float) -> Tensor:
    """Matrix that enlarges a line of pixels with both ends kept and cuts out the middle, (size, size)."""
    made = round(size * factor)
    place = (torch.arange(size, dtype=torch.float64) + (made - size) // 2) * ((size - 1) / (made - 1))
    return weights(place, size)


def weights(place: Tensor, size: int) -> Tensor:
    """Row i has the weight of each of `size` coefficients at place i, (places, size)."""
    which, share = taps(place, size)
    return torch.zeros(len(place), size, dtype=place.dtype).scatter_add_(1, which, share)


def taps(place: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The four coefficients of a line that count at each place, and their cubic B-spline weights, (..., 4)."""
    before = place.floor()
    t = place - before
    u = 1 - t
    share = torch.stack((u**3, 4 - 6 * t**2 + 3 * t**3, 4 - 6 * u**2 + 3 * u**3, t**3), dim=-1) / 6
    which = (before.long()[..., None] + torch.arange(-1, 3, device=place.device)) % (2 * size - 2)
    return torch.minimum(which, 2 * size - 2 - which), share
