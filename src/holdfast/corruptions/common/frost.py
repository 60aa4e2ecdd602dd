"""Frosted window panes, generated.

The published corruption cuts its frost out of photographs. Here five panes are grown from random numbers instead, the
same in every process: ferns of ice (a spine with barbs at about 60° on both sides, as water crystals branch) and loose
needles are drawn as bright lines with a dark flank over a cloud, and each pane gets the mean colour and the standard
deviation of one of the five photographs. They differ from the photographs in this: the tint does not vary within a
pane, there are no drops, scratches or view through the glass, and the panes are periodic, so that images of any size
can be cut.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.rng import Streams

SIDE = 512
"""Of a pane at scale 1."""
FERNS, BARBS, NEEDLES, DOTS = 320, 22, 900, 48
"""Per pane, per side of a fern, per pane, and per line."""

COLOURS = ((78, 149, 166), (201, 205, 215), (201, 205, 215), (138, 153, 165), (112, 123, 135))
DEVIATIONS = (18, 22, 22, 29, 43)
"""Mean colour and standard deviation of the grey of the published photographs frost1 to frost5, in 8-bit units."""


@lru_cache(maxsize=4)
def panes(scale: float, height: int, width: int, device: torch.device) -> Tensor:
    """All cuts of height x width pixels of the five panes, in [0, 1], as a view: (5, 3, side, side, height, width).

    A pane's side is 512 * scale pixels. It is continued periodically, so that every pixel can be a cut's corner.
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
    texture = _standardised(torch.tanh(relief)) + 0.6 * _standardised(_cloud(rng))
    texture = _standardised(texture)[:, None]
    colour = torch.tensor(COLOURS).float()[:, :, None, None]
    deviation = torch.tensor(DEVIATIONS).float()[:, None, None, None]
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
    """Lines that grow fainter to their end, as dots shared between the four pixels around them; (5, 512, 512)."""
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


def _standardised(plane: Tensor) -> Tensor:
    centred = plane - plane.mean((1, 2), keepdim=True)
    return centred / centred.std((1, 2), keepdim=True)
