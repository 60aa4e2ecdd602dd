"""Pixels that move: pinched and twirled discs, and ripples."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.corruptions.bar.geometry import pixels, precise, sample, side, uniform
from holdfast.corruptions.bar.tables import SIDE
from holdfast.rng import Streams


def pinch_and_twirl(x: Tensor, level: float, rng: Streams) -> Tensor:
    r"""Discs on a grid are pinched, and twirled by up to :math:`\pm \tfrac{\pi}{2} \cdot \tfrac{s}{10}`, signs random.

    A pixel at distance :math:`r = \delta \varrho` from the middle of a disc of radius :math:`\varrho` shows the place
    at distance :math:`r \sin(\tfrac{\pi}{2}\delta)^{-a}`, turned by :math:`(1 - \delta)^2` of that angle, with
    :math:`a = 0.1 + 0.04\,s`. The rim stays where it is, and so do the pixels between the discs.

    There are three by three discs of 10 pixels in 32, and five by five of 44 in 224. Images of other sizes have discs
    in proportion to the nearer of these two, and as many as fit.
    """
    size = cell(side(x))
    counts = [math.floor(length / size) for length in x.shape[-2:]]
    places = [(line / size).floor() for line in pixels(x)]
    sign = rng.integers(2, (counts[0] * counts[1],), x.device).to(precise(x)).mul_(2).sub_(1)
    which = [place.long().clamp(max=count - 1) for place, count in zip(places, counts, strict=True)]
    twirl = math.pi / 2 * level / 10 * sign[:, which[0] * counts[1] + which[1]]
    below, beside = (line - size * (place + 0.5) for line, place in zip(pixels(x), places, strict=True))
    moved = pinched_and_twirled(below, beside, radius=size / 2, amount=0.1 + 0.04 * level, twirl=twirl)
    # Pixels beyond the last whole cell have no disc.
    inside = (places[0] < counts[0]) & (places[1] < counts[1])
    change = [(new - old).where(inside, 0.0) for new, old in zip(moved, (below, beside), strict=True)]
    rows, columns = pixels(x)
    return sample(x, rows + change[0], columns + change[1])


def cell(length: int) -> float:
    """Diameter of the discs for images of this side, in pixels."""
    disc, published = (10, SIDE) if length < math.sqrt(SIDE * 224) else (44, 224)
    return length * disc / published


def pinched_and_twirled(
    below: Tensor, beside: Tensor, *, radius: float, amount: float, twirl: Tensor
) -> tuple[Tensor, Tensor]:
    """The place that a pixel of a disc shows; places are relative to the disc's middle, (row, column)."""
    distance = torch.hypot(below, beside)
    share = (distance / radius).clamp(max=1)
    # At the middle itself the power has no bound, but the place does not move.
    pinch = torch.sin(math.pi / 2 * share).clamp(min=1e-9).pow(-amount)
    turn = twirl * (1 - share).square()
    down, right = pinch * below, pinch * beside
    return turn.cos() * down - turn.sin() * right, turn.sin() * down + turn.cos() * right


def ripple(x: Tensor, level: float, rng: Streams) -> Tensor:
    r"""Rows and columns swing: pixel :math:`p` shows place :math:`p + A \sin(2 \pi p / \lambda + \phi)`, on each axis.

    Amplitude :math:`A = 0.0025\,s\,d` for side :math:`d`; wavelength :math:`\lambda \sim U(0.1, 0.3)\,d` and phase are
    drawn for each axis. Places outside of the image are black.
    """
    amplitude = 0.0025 * level * side(x)
    wavelengths = uniform(rng, x, 2, 0.1 * side(x), 0.3 * side(x))
    phases = uniform(rng, x, 2, 0, 2 * math.pi)
    rows, columns = (
        line + amplitude * torch.sin(2 * math.pi * line / wavelength + phase)
        for line, wavelength, phase in zip(pixels(x), wavelengths, phases, strict=True)
    )
    return sample(x, rows, columns)
