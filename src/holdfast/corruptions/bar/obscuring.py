"""Grey that hides parts of the image: cells of a chequered board, and lines."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.corruptions.bar.geometry import angle, aspect, combined_cover, pixels, precise, side, uniform
from holdfast.corruptions.bar.tables import SIDE
from holdfast.rng import Streams

GREY = 128 / 255


def checkerboard_cutout(x: Tensor, level: float, rng: Streams) -> Tensor:
    r"""Some black squares of a turned chequered board become grey.

    The board is turned by a random angle about the upper left corner; its squares are :math:`U(0.1, 0.25)` of the
    shorter side long and at least a pixel. Each black one is grey with probability :math:`s / 10`, so that
    :math:`s / 20` of the image is hidden.
    """
    direction, (size,) = angle(rng, x), uniform(rng, x, 1, 0.1 * side(x), 0.25 * side(x))
    size = size.clamp(min=1)
    rows, columns = pixels(x)
    across = ((direction.cos() * rows + direction.sin() * columns) / size).floor().long()
    along = ((direction.cos() * columns - direction.sin() * rows) / size).floor().long()
    reach = most_squares(*x.shape[-2:])  # no two squares of an image share a number
    draws = rng.uniform(x.new_empty((len(x), reach * reach), dtype=precise(x)))
    chance = draws.gather(1, (across % reach * reach + along % reach).flatten(1)).view(across.shape)
    grey = ((across + along) % 2 == 0) & (chance < level / 10)
    return x.masked_fill(grey[:, None], GREY)


def most_squares(height: int, width: int) -> int:
    """Number of squares that an image can span along an axis of the board: along its diagonal, when they are small."""
    return math.ceil(math.hypot(height, width) / max(0.1 * min(height, width), 1)) + 1


def lines(x: Tensor, level: float, rng: Streams) -> Tensor:
    r"""Grey lines of one pixel's width, of which :math:`\lfloor s d / 10 \rfloor` cross an image of side :math:`d`.

    A line reaches :math:`d` to both sides of its random middle. Its direction is :math:`\theta + 2\pi v u`, where
    :math:`\theta \sim U(0, 2\pi)` and :math:`v \sim U(0.1, 1)` are the image's and
    :math:`u \sim U(-\tfrac12, \tfrac12)` the line's own. It covers :math:`\max(0, 1 - r)` of a pixel at distance
    :math:`r`, as anti-aliased lines do.

    The number depends on the longer side, so that it grows with the area. Images of less than 32 pixels have as many
    lines as those of 32, darkened by the factor :math:`d / 32`: rounding down would leave none.
    """
    length, thickness = side(x), min(1, side(x) / SIDE)
    count = math.floor(level / 10 * max(length, SIDE) * aspect(x))
    turn, (spread,) = angle(rng, x), uniform(rng, x, 1, 0.1, 1)
    rows, columns = pixels(x)

    def cover(line: int) -> Tensor:
        row, column, own = uniform(rng, x, 3)
        direction = turn + 2 * math.pi * spread * (own - 0.5)
        across, along = length * direction.sin(), length * direction.cos()
        middle = row * x.shape[-2], column * x.shape[-1]
        start, end = (
            ((middle[0] + sign * across).trunc(), (middle[1] + sign * along).trunc()) for sign in (-1, 1)
        )  # ends lie on pixels, as in the reference
        return thickness * (1 - distance(rows, columns, start, end)).clamp(min=0)

    return x.lerp(x.new_tensor(GREY), combined_cover(count, cover)[:, None].to(x.dtype))


def distance(rows: Tensor, columns: Tensor, start: tuple[Tensor, Tensor], end: tuple[Tensor, Tensor]) -> Tensor:
    """From each pixel to the segment between two places (row, column), in pixels."""
    down, right = end[0] - start[0], end[1] - start[1]
    below, beside = rows - start[0], columns - start[1]
    share = ((below * down + beside * right) / (down.square() + right.square())).clamp(0, 1)
    return torch.hypot(below - share * down, beside - share * right)
