"""Weather: snow, frost, fog, bright light."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.corruptions.common.blur import trail
from holdfast.corruptions.common.colour import luminance
from holdfast.corruptions.common.draws import symmetric
from holdfast.corruptions.common.filters import enlarge_centre
from holdfast.corruptions.common.frost import panes
from holdfast.corruptions.common.tables import Parameters
from holdfast.rng import Streams


def snow(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    """Flakes with trails before a whitened image.

    The flakes are Gaussian noise, enlarged, set to 0 below a threshold and drawn out downwards at an angle within 45°
    of the vertical; the same flakes turned by 180° are added.

    Parameters: mean and standard deviation of the noise, enlargement, threshold, radius and standard deviation of the
    trails, weight of the image against its whitened version. The flakes stay in floating point here, where the
    published script rounds them to 8 bits.
    """
    mean, deviation, enlargement, threshold, radius, sigma, weight = parameters
    noise = rng.normal(x[:, :1]).mul_(deviation).add_(mean)
    flakes = enlarge_centre(noise, max(1.0, enlargement))
    flakes = flakes.masked_fill_(flakes < threshold, 0).clamp_(0, 1)
    angle = rng.uniform(x.new_empty(len(x), 1)).mul_(90).sub_(135)
    layer = trail(flakes, radius, sigma, angle, downwards=True)
    white = torch.maximum(x, luminance(x).mul_(1.5).add_(0.5)).mul_(1 - weight)
    return white.add_(x, alpha=weight).add_(layer).add_(layer.flip(-2, -1)).clamp_(0, 1)


def frost(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    """A frosted pane before the image: weighted sum of the two, clipped.

    Each image gets a random cut of one of five generated panes (see `frost.py` for how they differ from photographs).
    Images of one channel get the pane's luminance.

    Parameters: weight of the image, weight of the frost, scale of the pane.
    """
    weight, frost_weight, scale = parameters
    windows = panes(scale, x.shape[-2], x.shape[-1], x.device)
    count, _, rows, columns = windows.shape[:4]
    which, row, column = (rng.integers(size, (), x.device) for size in (count, rows, columns))
    cut = windows[which, :, row, column].to(x)
    if x.shape[1] == 1:
        cut = luminance(cut)
    return cut.mul_(frost_weight).add_(x, alpha=weight).clamp_(0, 1)


def fog(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    r""":math:`\mathrm{clip}\bigl((x + c\,p)\, m / (m + c)\bigr)`, :math:`p` a plasma fractal and :math:`m = \max x`.

    Parameters: :math:`c`, and by how much the fractal's steps shrink from one scale to the next.
    """
    strength, decay = parameters
    height, width = x.shape[-2:]
    side = 1 << (max(height, width) - 1).bit_length()
    cloud = plasma(x, side, decay, rng)[:, None, :height, :width]
    brightest = x.amax((1, 2, 3), keepdim=True)
    return (x + cloud * strength).mul_(brightest / (brightest + strength)).clamp_(0, 1)


def plasma(like: Tensor, side: int, decay: float, rng: Streams) -> Tensor:
    """Diamond-square heights on a periodic square, scaled to [0, 1]; (N, side, side), side a power of two.

    Every point is the mean of its four neighbours on the next coarser grid plus a uniform number, whose range is
    divided by the square of `decay` from grid to grid.
    """
    wobble = symmetric(rng, like.new_empty(len(like), side * side - 1))
    height, drawn, size = like.new_zeros(len(like), 1, 1), 0, 4.0
    while (grid := height.shape[-1]) < side:
        draws = wobble[:, drawn : drawn + 3 * grid**2].view(-1, 3, grid, grid) * size
        below = height + height.roll(-1, 1)
        middle = (below + below.roll(-1, 2) + draws[:, 0]).div_(4)
        top = (middle + middle.roll(1, 1) + height + height.roll(-1, 2) + draws[:, 1]).div_(4)
        left = (middle + middle.roll(1, 2) + below + draws[:, 2]).div_(4)
        finer = torch.stack((torch.stack((height, top), dim=-1), torch.stack((left, middle), dim=-1)), dim=2)
        height = finer.view(len(like), 2 * grid, 2 * grid)
        drawn, size = drawn + 3 * grid**2, size / decay**2
    height -= height.amin((1, 2), keepdim=True)
    return height.div_(height.amax((1, 2), keepdim=True))


def brightness(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    """The value of hue, saturation and value, raised and clipped; parameters: the amount.

    With hue and saturation fixed all channels are in proportion to the value, their maximum; black becomes grey.
    """
    (amount,) = parameters
    value = x.amax(1, keepdim=True)
    brighter = (value + amount).clamp_(max=1)
    return torch.where(value > 0, x * (brighter / value), brighter).clamp_(max=1)
