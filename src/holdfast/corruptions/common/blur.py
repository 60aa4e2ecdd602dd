"""Blurs: out of focus, through rippled glass, of a moving camera, of a camera that approaches."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.corruptions.common.draws import words
from holdfast.corruptions.common.filters import columns_last, correlate, enlarged_lines, rows_first, smooth, turned
from holdfast.corruptions.common.tables import Parameters
from holdfast.rng import Streams


def gaussian_blur(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    """Gaussian smoothing; parameters: standard deviation in pixels."""
    (sigma,) = parameters
    return smooth(x, sigma).clamp(0, 1)


def defocus_blur(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    """Correlation with a disc, the image mirrored at its edges; parameters: radius, softness of the disc's rim."""
    kernel = disc(*parameters).to(x)
    reach = len(kernel) // 2
    return correlate(F.pad(x, (reach,) * 4, mode="reflect"), kernel[None, None]).clamp(0, 1)


@lru_cache(maxsize=64)
def disc(radius: float, softness: float) -> Tensor:
    """The pixels within `radius` of the middle, each with the same weight, then smoothed a little.

    The published disc lies on a grid of at least 17 pixels and is smoothed over 3 pixels, beyond radius 8 over 5, the
    grid's outside mirrored. So discs that reach the edge of their grid, of radius 8 and more, sum to about 1.01 instead
    of 1 and brighten the image; this is kept. Rows and columns of zeros are cut off.
    """
    half, taps = (8, 3) if radius <= 8 else (math.floor(radius), 5)
    line = np.arange(-half, half + 1)
    inside = (line[:, None] ** 2 + line**2 <= radius**2).astype(np.float64)
    offset = np.arange(taps) - taps // 2
    weight = np.exp(-0.5 * (offset / softness) ** 2)
    weight /= weight.sum()
    for _ in range(2):  # once along each axis
        padded = np.pad(inside, ((taps // 2, taps // 2), (0, 0)), mode="reflect")
        inside = sum(w * padded[k : k + len(line)] for k, w in enumerate(weight)).T
    used = np.flatnonzero(inside.any(0))
    cut = slice(used[0], used[-1] + 1)
    return torch.from_numpy(np.ascontiguousarray(inside[cut, cut]) / (line[:, None] ** 2 + line**2 <= radius**2).sum())


def glass_blur(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    r"""Smoothing, shuffling of near pixels, smoothing; parameters: standard deviation, reach :math:`d`, rounds.

    A round goes through the pixels from the lower right to the upper left and gives each the value that its neighbour
    at a random offset in :math:`[-d, d)^2` has at that moment. (The published script should swap the two but overwrites
    one of them; the published data have this error.) The smoothed image stays in floating point here, where the script
    truncates it to 8 bits.
    """
    sigma, reach, rounds = parameters
    blurred = smooth(x, sigma)
    source = shuffled(x, max(1, round(reach)), int(rounds), rng)
    moved = blurred.flatten(2).gather(2, source[:, None].expand(-1, x.shape[1], -1)).view(x.shape)
    return smooth(moved, sigma).clamp(0, 1)


def shuffled(x: Tensor, reach: int, rounds: int, rng: Streams) -> Tensor:
    """The pixel of its image from which each pixel's value comes, (N, H * W), after all rounds."""
    pixels = x.shape[-2] * x.shape[-1]
    source = _one_round(x, reach, rng)
    for _ in range(rounds - 1):
        source = source.index_select(0, _one_round(x, reach, rng))
    return source.view(len(x), pixels) % pixels


def _one_round(x: Tensor, reach: int, rng: Streams) -> Tensor:
    """The pixel from which each pixel of the batch gets its value in one round, without visiting them one by one.

    A neighbour that comes later in the order still has its old value: the search ends there. One that was visited
    before has a value from elsewhere, and the search continues from it. Such chains of pixels are followed for all of
    them at once, twice as far with each step, until all point to the last of their chain.
    """
    (height, width), side = x.shape[-2:], 2 * reach
    own = torch.arange(len(x) * height * width, device=x.device)
    where = (slice(None), slice(reach + 1, height - reach + 1), slice(reach + 1, width - reach + 1))
    visited = own.view(-1, height, width)[where]
    step = torch.arange(-reach, reach, device=x.device)
    steps = (step[:, None] * width + step).flatten()
    # One number for both offsets: side**2 is at most some hundred, so remainders of 31 bits are as good as uniform.
    drawn = words(rng, visited).bitwise_and_(0x7FFFFFFF).remainder_(side * side)
    source = steps.index_select(0, drawn.flatten()).view(visited.shape).add_(visited)
    value, last = own.clone(), own.clone()
    value.view(-1, height, width)[where] = source
    last.view(-1, height, width)[where] = torch.maximum(source, visited)  # itself, where the search ends
    while not torch.equal(further := last.index_select(0, last), last):
        last = further
    return value.index_select(0, last)


def motion_blur(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    r"""A trail along a line at an angle uniform in ±45°; parameters: radius, standard deviation of the trail.

    .. math:: z_p = \sum_{i=0}^{2r} w_i\, x_{p + \lceil i(\cos\alpha, \sin\alpha) - 1/2\rceil},
        \qquad w_i \propto e^{-i^2 / 2\sigma^2}

    Outside, the image continues with its nearest pixel.
    """
    radius, sigma = parameters
    angle = rng.uniform(x.new_empty(len(x), 1)).mul_(90).sub_(45)
    return trail(x, radius, sigma, angle, downwards=False).clamp_(0, 1)


def trail(x: Tensor, radius: float, sigma: float, angle: Tensor, *, downwards: bool) -> Tensor:
    """Motion blur with an angle in degrees per image, (N, 1), within 45° of the x axis, or of straight down."""
    taps = 1 + min(2 * math.ceil(radius), math.ceil(6 * sigma))  # weights below 2e-8 of the first are left out
    step = torch.arange(taps, device=x.device, dtype=torch.float64)
    weight = torch.exp(-0.5 * (step / sigma) ** 2)
    direction = torch.deg2rad(angle.double())
    across = torch.ceil(step * torch.cos(direction) - 0.5).long()
    down = torch.ceil(step * torch.sin(direction) - 0.5).long()
    far, aside = taps - 1, math.ceil((taps - 1) * math.sqrt(0.5))
    left, right, top, bottom = (aside, aside, far, 0) if downwards else (0, far, aside, aside)
    kernel = x.new_zeros(len(x), 1, top + bottom + 1, left + right + 1)
    place = (down + top) * kernel.shape[-1] + across + left
    kernel.flatten(1).scatter_add_(1, place, (weight / weight.sum()).to(x).expand(len(x), -1))
    return correlate(F.pad(x, (left, right, top, bottom), mode="replicate"), kernel)


def zoom_blur(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    """Mean of the image and its enlargements by 1, 1 + step, ...; parameters: where the factors end, their step."""
    stop, step = parameters
    factors = np.arange(1, stop, step).tolist()  # numpy decides which is the last, as published
    rows = rows_first(x)
    total = turned(rows)
    for factor in factors:
        total += enlarged_lines(turned(enlarged_lines(rows, factor)), factor)
    return columns_last(total.div_(len(factors) + 1).clamp_(0, 1))
