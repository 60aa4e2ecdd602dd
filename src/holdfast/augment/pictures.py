r"""Pictures to mix into training images: generated fractals and textures, or those of a folder.

Fractals are attractors of random iterated function systems; each map has a colour, with which the points that it moves
are half mixed. Textures are random networks of sines from coordinates to colours, bands and cells as in visualisations
of a network's features. Both show structure at all scales and no object of any data set.

Reference:
    Barnsley, Demko, Iterated Function Systems and the Global Construction of Fractals, 1985.
    Stanley, Compositional Pattern Producing Networks, 2007.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.data.folder import crop, pictures_below, read_picture
from holdfast.data.roots import existing
from holdfast.errors import DataError
from holdfast.rng import derive

MAPS, STEPS, WARMING = 4, 48, 12
"""Largest number of maps of a system; steps of the chaos game, and the number of first steps that are not drawn."""

PER_PIXEL = 16
"""Points of a fractal per pixel."""

LARGEST = 64
"""Largest side in pixels at which pictures are generated."""

CHUNK = 1 << 15
"""Pixels worked on at once."""


@lru_cache(maxsize=8)
def generated(count: int, height: int, width: int, seed: int = 0) -> Tensor:
    """Fractals and textures in turn, (count, 3, height, width), float32 in [0, 1]; kept for the next call.

    Those of more than 64 pixels a side are generated smaller and enlarged.
    """
    generator = torch.Generator().manual_seed(derive(seed, f"pictures {height} x {width}"))
    small = H, W = min(height, LARGEST), min(width, LARGEST)
    together = max(1, CHUNK // (H * W))
    halves = []
    for make, number in ((fractals, (count + 1) // 2), (textures, count // 2)):
        made = [make(min(together, number - n), H, W, generator) for n in range(0, number, together)]
        halves.append(torch.cat([torch.empty(0, 3, H, W), *made]))
    order = [place // 2 + (place % 2) * len(halves[0]) for place in range(count)]
    pictures = torch.cat(halves)[order]
    if small != (height, width):
        pictures = F.interpolate(pictures, (height, width), mode="bicubic", align_corners=False).clamp_(0, 1)
    return pictures


@lru_cache(maxsize=8)
def from_folder(path: str, height: int, width: int) -> Tensor:
    """The images of a directory, scaled and cut to size, (count, 3, height, width), float32; kept for the next call."""
    place = existing(path, None)
    files = pictures_below(place, place)
    if not files:
        raise DataError(f"{place}: expected a directory of images to mix, got none")
    return torch.stack([_read(file, height, width) for file in files])


def _read(file: Path, height: int, width: int) -> Tensor:
    square = crop(read_picture(file, "RGB"), max(height, width))
    pixels = torch.from_numpy(np.array(square, np.uint8))[:height, :width]
    return pixels.permute(2, 0, 1).to(torch.float32) / 255


def fractals(count: int, height: int, width: int, generator: torch.Generator) -> Tensor:
    """Attractors of random systems of contractions, (count, 3, height, width), by the chaos game."""
    matrix = _contractions(count, generator).flatten(2)
    shift = torch.rand(count, MAPS, 2, generator=generator) * 2 - 1
    colours = torch.rand(count, MAPS, 3, generator=generator)
    usable = torch.randint(2, MAPS + 1, (count, 1), generator=generator)
    ground = torch.rand(count, 3, 1, generator=generator) ** 3
    table = torch.cat((matrix, shift, colours), dim=2).transpose(1, 2)  # (count, 9, MAPS)
    points = max(64, PER_PIXEL * height * width // (STEPS - WARMING))
    state, kept = torch.full((count, 5, points), 0.5), []
    for step in range(STEPS):
        which = (torch.rand(count, 1, points, generator=generator) * usable[..., None]).to(torch.int64)
        entry = table.gather(2, which.expand(-1, 9, -1))
        place = entry[:, 0:4:2] * state[:, :1] + entry[:, 1:4:2] * state[:, 1:2] + entry[:, 4:6]
        state = torch.cat((place, (state[:, 2:] + entry[:, 6:]) / 2), dim=1)
        if step >= WARMING:
            kept.append(state)
    return _drawn(torch.cat(kept, dim=2), ground, height, width).view(count, 3, height, width)


def _contractions(count: int, generator: torch.Generator) -> Tensor:
    """Matrices (count, MAPS, 2, 2) with singular values in [0.2, 0.85] and any orientation."""
    angles = torch.rand(2, count, MAPS, generator=generator) * (2 * math.pi)
    one, other = (
        torch.stack((angle.cos(), -angle.sin(), angle.sin(), angle.cos()), dim=2).view(count, MAPS, 2, 2)
        for angle in angles
    )
    scales = 0.2 + 0.65 * torch.rand(count, MAPS, 2, generator=generator).sqrt()
    mirrored = 1 - 2 * torch.randint(2, (count, MAPS), generator=generator)
    scales[..., 1] *= mirrored
    return (one * scales[..., None, :]) @ other


def _drawn(states: Tensor, ground: Tensor, height: int, width: int) -> Tensor:
    """Colours (count, 3, pixels) of places and shades (count, 2 + 3, points), denser where there are more of them."""
    place, cells = states[:, :2], height * width
    # Bounds from a part of the points: they need not be exact, and a quantile sorts.
    low, high = place[..., ::8].quantile(torch.tensor([0.01, 0.99]), dim=2)[..., None]
    unit = ((place - low) / (high - low).clamp_min(1e-6)).clamp(0, 1 - 1e-6)
    cell = (unit[:, 1] * height).to(torch.int64) * width + (unit[:, 0] * width).to(torch.int64)
    hits = torch.zeros(len(cell), cells).scatter_add_(1, cell, torch.ones(cell.shape))
    sums = torch.zeros(len(cell), 3, cells).scatter_add_(2, cell[:, None].expand(-1, 3, -1), states[:, 2:])
    cover = (hits / PER_PIXEL).clamp_max_(1).sqrt_()[:, None]
    colour = sums / hits.clamp_min(1)[:, None]
    spread = colour - colour.mean((1, 2), keepdim=True)
    return ((1 - cover) * ground + cover * (0.55 + 1.5 * spread)).clamp_(0, 1)


def textures(count: int, height: int, width: int, generator: torch.Generator) -> Tensor:
    """Random networks of sines from coordinates to colours, (count, 3, height, width)."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(count, *shape, generator=generator)

    down, across = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
    centre = normal(2, 1) / 2
    across, down = across.flatten().expand(count, -1), down.flatten().expand(count, -1)
    radius = torch.hypot(across - centre[:, 0], down - centre[:, 1])
    hidden = torch.stack((across, down, radius), dim=1)
    # From one wave across the picture to one in every eight pixels, log-uniform.
    finest = max(math.log(max(height, width) / 8), 0.1)
    frequency = 2 * torch.exp(torch.rand(count, 1, 1, generator=generator) * finest)
    hidden = torch.sin(normal(16, 3) * frequency @ hidden + math.pi * normal(16, 1))
    hidden = torch.sin(normal(16, 16) @ hidden * 0.5 + normal(16, 1))
    colours = torch.sigmoid(normal(3, 16) @ hidden * 0.6 + 0.5 * normal(3, 1))
    return colours.lerp(colours.mean(1, keepdim=True), 0.25).view(count, 3, height, width)
