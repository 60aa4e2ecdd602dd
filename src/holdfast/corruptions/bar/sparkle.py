"""Rays of white light: several small sparkles, or white everywhere but in one large sparkle."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.corruptions.bar.geometry import aspect, combined_cover, pixels, precise, side, uniform
from holdfast.corruptions.bar.tables import SIDE
from holdfast.rng import Streams

FEWEST, MOST = 50, 199
"""Smallest and largest number of rays of a sparkle."""

VARIATION = 0.25
"""Standard deviation of the rays' lengths, relative to their mean."""


def sparkles(x: Tensor, level: float, rng: Streams) -> Tensor:
    r"""Five sparkles of radius :math:`0.01\,s\,d` anywhere in an image of side :math:`d` cover it with white.

    No ray is shorter than a pixel (:math:`d / 32` in images of less than 32 pixels). Images that are not square have
    five for each square of the shorter side.
    """
    radius, shortest = 0.01 * level * side(x), min(1, side(x) / SIDE)

    def cover(sparkle: int) -> Tensor:
        centre = uniform(rng, x, 2)
        return light(x, centre, rng, radius=radius, shortest=shortest, power=1)

    white = combined_cover(round(5 * aspect(x)), cover)
    return x.lerp(x.new_ones(()), white[:, None].to(x.dtype))


def inverse_sparkles(x: Tensor, level: float, rng: Streams) -> Tensor:
    r"""White everywhere but in one sparkle of radius :math:`d / 4`, whose light falls with power :math:`0.13\,s`.

    Its centre lies in the middle half of both axes.
    """
    cover = light(x, uniform(rng, x, 2, 0.25, 0.75), rng, radius=0.25 * side(x), shortest=-math.inf, power=0.13 * level)
    return x.new_ones(()).lerp(x, cover[:, None].to(x.dtype))


def light(x: Tensor, centre: list[Tensor], rng: Streams, *, radius: float, shortest: float, power: float) -> Tensor:
    r"""How much of each pixel a sparkle covers, (N, H, W).

    .. math:: \min\Bigl(1,\ \bigl(1 - (f - \tfrac12)^2\bigr)
        \Bigl(\frac{\ell^2}{r^2 + 10^{-4}}\Bigr)^{p}\Bigr)

    at distance :math:`r` from the centre, a share :math:`f` of the way from one ray to the next, where :math:`\ell` is
    the length between those of the two. Rays have equal angles between them and random lengths
    :math:`N(\varrho, (\varrho / 4)^2)`; their number is random.

    Args:
        x: images.
        centre: row and column as shares of the sides, (N, 1, 1) each.
        rng: streams of the examples.
        radius: :math:`\varrho`, mean length of the rays in pixels.
        shortest: minimum length of a ray.
        power: :math:`p`, how fast the light falls.
    """
    rays = FEWEST + rng.integers(MOST - FEWEST + 1, (1, 1), x.device)
    normal = rng.normal(x.new_empty((len(x), MOST), dtype=precise(x)))
    lengths = (radius * (1 + VARIATION * normal)).clamp(min=shortest)
    rows, columns = pixels(x)
    below, beside = rows - x.shape[-2] * centre[0], columns - x.shape[-1] * centre[1]
    turn = (torch.atan2(beside, below) / (2 * math.pi) + 0.5) * rays
    before = turn.floor()
    share, ray = turn - before, before.long()
    first, second = (lengths.gather(1, (which % rays).flatten(1)).view(ray.shape) for which in (ray, ray + 1))
    fall = (first.lerp(second, share).square() / (below.square() + beside.square() + 1e-4)).pow(power)
    return ((1 - (share - 0.5).square()) * fall).clamp(max=1)
