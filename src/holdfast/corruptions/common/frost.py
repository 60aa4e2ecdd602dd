"""Frosted window panes, generated.

The published corruption cuts its frost out of photographs. Here five panes are grown from random numbers instead, the
same in every process: ferns of ice (a spine with barbs at about 60° on both sides, as water crystals branch) and loose
needles are drawn as bright lines with a dark flank over a cloud, and each pane gets the mean colour, the standard
deviation and the power at each frequency, averaged over directions, of one of the five photographs. They differ from
the photographs in this: the tint does not vary within a pane, there are no drops, scratches or view through the glass,
and the panes are periodic, so that images of any size can be cut.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from holdfast.rng import Streams

Array = NDArray[Any]

SIDE = 500
"""Side of a pane at scale 1. At 0.2, the scale of CIFAR, every fifth pixel is taken as it is, as in the reference."""
FERNS, BARBS, NEEDLES, DOTS = 320, 22, 900, 48
"""Ferns per pane, barbs per side of a fern, needles per pane, and dots per line."""

COLOURS = ((78, 149, 166), (201, 205, 215), (201, 205, 215), (138, 153, 165), (112, 123, 135))
DEVIATIONS = ((25, 15, 14), (-21, -22, -23), (-21, -22, -23), (28, 28, 30), (44, 43, 42))
"""Mean colour of the published photographs frost1 to frost5, and standard deviation of each channel, in 8-bit units.

Channels of a pane vary together, so those of frost1, which do so only in part, are scaled to the deviation of its grey.
Negative where the ice is darker than its ground.
"""

BANDS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.37, 0.5)
"""Edges of bands of radial frequency, in cycles per pixel."""
_BRIGHT = (51.3, 19.2, 11.8, 7.52, 3.63, 1.69, 0.959, 0.489, 0.259, 0.0811)
SPECTRA = (
    (85.1, 16.5, 4.41, 1.80, 1.23, 0.908, 0.724, 0.550, 0.323, 0.123),
    _BRIGHT,
    _BRIGHT,
    (23.8, 15.4, 9.76, 6.11, 3.94, 2.55, 1.65, 0.985, 0.549, 0.194),
    (73.1, 36.9, 15.0, 6.22, 3.50, 1.79, 0.900, 0.461, 0.256, 0.154),
)
"""Mean power of the grey of frost1 to frost5 in each band; white noise of the same variance has 1. Frost3 is frost2.

Measured in windows of 192 pixels, 64 apart, with Hann weights and without their mean.
"""


@lru_cache(maxsize=4)
def panes(scale: float, height: int, width: int, device: torch.device) -> Tensor:
    """All cuts of height x width pixels of the five panes, in [0, 1], as a view: (5, 3, side, side, height, width).

    A pane's side is 500 * scale pixels. It is continued periodically, so that every pixel can be a cut's corner.
    """
    whole = _panes()
    side = max(8, round(SIDE * scale))
    if side != SIDE:
        whole = F.interpolate(whole, (side, side), mode="bilinear", align_corners=False)
    for axis, size in ((2, height), (3, width)):
        whole = whole.index_select(axis, torch.arange(side + size - 1) % side)
    return whole.to(device).unfold(2, height, 1).unfold(3, width, 1)


@lru_cache(maxsize=1)
def _panes() -> Tensor:
    rng = Streams(0, "frost", len(COLOURS))
    lines = _lines(rng)
    ice = _draw(*lines)
    relief = ice - 0.6 * ice.roll((2, 1), (1, 2))  # light from the upper left
    texture = _shaped(_standardised(torch.tanh(relief)) + 0.6 * _standardised(_cloud(rng)))[:, None]
    colour = torch.tensor(COLOURS).float()[:, :, None, None]
    deviation = torch.tensor(DEVIATIONS).float()[:, :, None, None]
    return (colour + deviation * texture).div_(255).clamp_(0, 1)


def _lines(rng: Streams) -> tuple[Tensor, ...]:
    """Start (y, x), direction, length and brightness of all lines, (5, lines) each."""
    like = torch.empty(len(rng), FERNS)
    y, x = rng.uniform(like) * SIDE, rng.uniform(like) * SIDE
    turn = rng.uniform(like) * 2 * math.pi
    length = 25 + 75 * rng.uniform(like) ** 2
    parts = [(y, x, turn, length, 1.3 + 0 * length)]
    for side in (-1, 1):
        for barb in range(BARBS):
            along = (barb + rng.uniform(like)) / BARBS
            bend = side * (math.pi / 3 + 0.25 * (rng.uniform(like) - 0.5))
            reach = length * 0.38 * (1 - along) * (0.6 + 0.4 * rng.uniform(like))
            from_y, from_x = y + along * length * torch.sin(turn), x + along * length * torch.cos(turn)
            parts.append((from_y, from_x, turn + bend, reach, torch.ones_like(reach)))
    like = torch.empty(len(rng), NEEDLES)
    place, angle = (rng.uniform(like) * SIDE, rng.uniform(like) * SIDE), rng.uniform(like) * 2 * math.pi
    parts.append((*place, angle, 4 + 26 * rng.uniform(like) ** 2, torch.full_like(like, 0.8)))
    return tuple(torch.cat(values, dim=1) for values in zip(*parts, strict=True))


def _draw(y: Tensor, x: Tensor, turn: Tensor, length: Tensor, light: Tensor) -> Tensor:
    """Lines that grow fainter to their end, as dots shared between the four pixels around them; (5, 500, 500)."""
    along = (torch.arange(DOTS) + 0.5) / DOTS
    dot_y = (y[..., None] + (length * torch.sin(turn))[..., None] * along).flatten(1)
    dot_x = (x[..., None] + (length * torch.cos(turn))[..., None] * along).flatten(1)
    light = ((light * length / DOTS)[..., None] * (1.2 - along)).flatten(1)
    canvas = torch.zeros(len(y), SIDE * SIDE)
    row, column = dot_y.floor(), dot_x.floor()
    for down in (0, 1):
        for right in (0, 1):
            share = (1 - (dot_y - row - down).abs()) * (1 - (dot_x - column - right).abs())
            place = (row + down) % SIDE * SIDE + (column + right) % SIDE
            canvas.scatter_add_(1, place.long(), light * share)
    return canvas.view(-1, SIDE, SIDE)


def _cloud(rng: Streams) -> Tensor:
    """Smooth periodic noise with a spectrum that falls with the square of the frequency."""
    noise = rng.normal(torch.empty(len(rng), SIDE, SIDE))
    rows, columns = torch.fft.fftfreq(SIDE)[:, None], torch.fft.rfftfreq(SIDE)[None]
    falloff = 1 / (rows**2 + columns**2 + (1.5 / SIDE) ** 2)
    cloud: Tensor = torch.fft.irfft2(torch.fft.rfft2(noise) * falloff, s=(SIDE, SIDE))
    return cloud


def _shaped(texture: Tensor) -> Tensor:
    """The same structures with the power of `SPECTRA` at each frequency, and with mean 0 and variance 1.

    Waves of more than 250 pixels, longer than the measured ones, have the rest of the variance.
    """
    frequency = torch.fft.fftfreq(SIDE)
    radius = torch.hypot(frequency[:, None], frequency)
    ring = (radius * SIDE).round().long()
    waves = torch.fft.fft2(_standardised(texture)) / SIDE
    shaped = torch.stack([wave * _gain(wave, ring, power) for wave, power in zip(waves, SPECTRA, strict=True)])
    low = radius < 0.004
    rest = SIDE**2 - shaped[:, ~low].abs().square().sum(1)
    shaped[:, low] = waves[:, low] * (rest / waves[:, low].abs().square().sum(1)).sqrt()[:, None]
    plane: Tensor = torch.fft.ifft2(shaped * SIDE).real
    return plane


def _gain(wave: Tensor, ring: Tensor, power: tuple[float, ...]) -> Tensor:
    """The gain that brings the mean power of each ring of frequencies to that of the bands."""
    count = torch.bincount(ring.flatten())
    present = torch.bincount(ring.flatten(), wave.abs().square().flatten()) / count
    wanted = torch.from_numpy(_power_of_rings(np.array(power), count.numpy())).float()
    return (wanted / present).sqrt()[ring]


def _power_of_rings(power: Array, count: Array) -> Array:
    """Power at each ring, of `count` frequencies: power laws between the middles of bands, whose means are `power`."""
    frequency = np.maximum(np.arange(len(count)), 0.5) / SIDE
    middles = [math.log(math.sqrt(low * high)) for low, high in pairwise(BANDS)]
    inside = [(frequency >= low) & (frequency < high) for low, high in pairwise(BANDS)]
    nodes = np.log(power)
    for _ in range(5):  # a mean is not the value in the middle
        rings = np.exp(np.interp(np.log(frequency), middles, nodes))
        nodes += np.log(power) - np.log([np.average(rings[band], weights=count[band]) for band in inside])
    return np.asarray(rings)


def _standardised(plane: Tensor) -> Tensor:
    centred = plane - plane.mean((1, 2), keepdim=True)
    return centred / centred.std((1, 2), keepdim=True)
