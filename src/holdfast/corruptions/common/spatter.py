"""Spatter: drops of water or splashes of mud on the lens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.corruptions.common.colour import luminance
from holdfast.corruptions.common.filters import smooth
from holdfast.corruptions.common.tables import Parameters
from holdfast.rng import Streams

WATER = (175, 238, 238)
"""Pale turquoise."""
MUD = (63, 42, 20)
FAR = 20
"""Distance in pixels from an edge of the liquid at which distances are cut off."""


def spatter(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    """Where smoothed noise exceeds a threshold, there is liquid: water that brightens, or mud that covers.

    Water is brightest where the liquid is thick, with a rim lit from one side; mud is the smoothed liquid's area.
    Images of one channel get the luminance of the colour.

    Parameters: mean and standard deviation of the noise, its smoothing, the threshold, strength of the water, smoothing
    of the mud; water where the last is 0.
    """
    mean, deviation, sigma, threshold, strength, mud = parameters
    liquid = smooth(rng.normal(x[:, :1]).mul_(deviation).add_(mean), sigma)
    if mud > 0:
        cover = smooth((liquid > threshold).to(x), mud)
        cover.masked_fill_(cover < 0.8, 0)
        return (x * (1 - cover) + cover * _colour(MUD, x)).clamp_(0, 1)
    depth = liquid.masked_fill(liquid < threshold, 0).clamp_(0, 1).mul_(255).floor_()
    bright = depth * _lit_rim(depth)
    bright = bright / bright.amax((2, 3), keepdim=True).clamp(min=1e-12)  # no liquid, no light
    return (x + bright * strength * _colour(WATER, x)).clamp_(0, 1)


def _colour(colour: tuple[int, int, int], like: Tensor) -> Tensor:
    values = like.new_tensor(colour)[None, :, None, None] / 255
    return luminance(values) if like.shape[1] == 1 else values


def _lit_rim(depth: Tensor) -> Tensor:
    """Equalised distance to the liquid's edges, embossed; whole numbers up to 255, as the reference rounds them."""
    distance = _distance(_edges(depth)).clamp_(max=FAR)
    level = _equalised(_box(distance).floor_())
    emboss = level.new_tensor([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])[None, None]
    lit = F.conv2d(F.pad(level, (1, 1, 1, 1), mode="reflect"), emboss)
    return _box(lit.clamp_(0, 255)).round_()


def _box(x: Tensor) -> Tensor:
    return F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), 3, stride=1)


def _edges(depth: Tensor, low: float = 50, high: float = 150) -> Tensor:
    """Canny's edges: ridges of the gradient above `low` that are connected to one above `high`."""
    padded = F.pad(depth, (1, 1, 1, 1), mode="replicate")
    across = padded[..., 2:] - padded[..., :-2]
    across = across[..., :-2, :] + 2 * across[..., 1:-1, :] + across[..., 2:, :]
    down = padded[..., 2:, :] - padded[..., :-2, :]
    down = down[..., :-2] + 2 * down[..., 1:-1] + down[..., 2:]
    size = across.abs() + down.abs()
    ridge = _is_ridge(size, across, down) & (size > low)
    edge = ridge & (size > high)
    while (
        True
    ):  # grow the strong edges along the weak ones until nothing is added; the end does not depend on the batch
        grown = ridge & (F.max_pool2d(edge.to(depth), 3, stride=1, padding=1) > 0)
        if torch.equal(grown, edge):
            return edge
        edge = grown


def _is_ridge(size: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Whether the gradient is larger than on one side of it and no smaller than on the other, along its direction."""
    padded = F.pad(size, (1, 1, 1, 1))
    height, width = size.shape[-2:]

    def beside(y: int, x: int) -> Tensor:
        return padded[..., 1 + y : 1 + y + height, 1 + x : 1 + x + width]

    flat = down.abs() < across.abs() * 0.41421356  # tan 22.5°
    steep = down.abs() > across.abs() * 2.41421356
    same = across * down >= 0
    horizontal = (size > beside(0, -1)) & (size >= beside(0, 1))
    vertical = (size > beside(-1, 0)) & (size >= beside(1, 0))
    falling = (size > beside(-1, -1)) & (size > beside(1, 1))
    rising = (size > beside(-1, 1)) & (size > beside(1, -1))
    diagonal = torch.where(same, falling, rising)
    return torch.where(flat, horizontal, torch.where(steep, vertical, diagonal))


def _distance(edge: Tensor) -> Tensor:
    """Euclidean distance to the nearest edge pixel, exact up to `FAR`; (N, 1, H, W)."""
    squared = torch.where(edge, 0.0, float(FAR + 1) ** 2).to(torch.float32)
    for axis in (-1, -2):
        nearest = squared
        for step in range(1, FAR + 1):
            moved = torch.minimum(_moved(squared, axis, step), _moved(squared, axis, -step))
            nearest = torch.minimum(nearest, moved + step**2)
        squared = nearest
    return squared.sqrt_()


def _moved(x: Tensor, axis: int, step: int) -> Tensor:
    """Shift along an axis; values from outside are far."""
    if abs(step) >= x.shape[axis]:
        return torch.full_like(x, float(FAR + 1) ** 2)
    padding = [0, 0, 0, 0]
    padding[(0 if axis == -1 else 2) + (0 if step > 0 else 1)] = abs(step)
    padded = F.pad(x, padding, value=float(FAR + 1) ** 2)
    return padded.narrow(axis, 0 if step > 0 else abs(step), x.shape[axis])


def _equalised(level: Tensor) -> Tensor:
    """Histogram equalisation of whole numbers 0 .. 255, image by image."""
    flat = level.flatten(1).long()
    count = torch.zeros(len(flat), 256, dtype=torch.int64, device=level.device)
    count.scatter_add_(1, flat, torch.ones_like(flat))
    below = count.cumsum(1)
    darkest = (count > 0).to(torch.int64).argmax(1, keepdim=True)
    of_darkest = count.gather(1, darkest)
    spread = (flat.shape[1] - of_darkest).clamp(min=1)
    mapped = ((below - of_darkest).clamp(min=0) * 255.0 / spread).round()
    single = of_darkest == flat.shape[1]
    mapped = torch.where(single, torch.arange(256, device=level.device), mapped)
    return mapped.gather(1, flat).view(level.shape).to(level)
