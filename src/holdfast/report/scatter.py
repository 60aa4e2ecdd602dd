"""Points of classes in a plane as small pictures: a path for each class, which needs no script to be drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from holdfast.show.figures import COLOURS, SYMBOLS

SIDE = 240
"""Width and height of a picture in its own units."""
MARGIN = 6
STYLES = COLOURS * len(SYMBOLS)
"""Classes that look different: colours first, then shapes."""
ORDER = (0, 4, 3, 2, 1)
"""Of the symbols, so that those of neighbouring rounds of colours look least alike."""
# By the number of the symbol. A line of no length with round or square ends is a dot; the other shapes are drawn.
SHAPES = ("h0", "h0", "m0-3.4l3.4 3.4-3.4 3.4-3.4-3.4z", "m0-3l3 5.2h-6z", "m-2.4-2.4l4.8 4.8m-4.8 0l4.8-4.8")

Point = tuple[float, float]


@dataclass(frozen=True)
class Marks:
    """The points of one class.

    Args:
        label: name of the class.
        path: for the attribute `d`.
        colour: number of the colour.
        shape: number of the symbol.
    """

    label: str
    path: str
    colour: int
    shape: int


@dataclass(frozen=True)
class Scatter:
    """A picture of points.

    Args:
        title: what it shows.
        marks: points of each class.
        points: how many there are.
    """

    title: str
    marks: Sequence[Marks]
    points: int

    side: ClassVar[int] = SIDE


def style(label: int) -> tuple[int, int]:
    """Number of the colour and of the symbol of a class."""
    return label % COLOURS, ORDER[label // COLOURS % len(ORDER)]


def scatters(
    pictures: Sequence[tuple[str, Sequence[Sequence[Point]], int, Sequence[int]]], name: Callable[[int], str]
) -> list[Scatter]:
    """Pictures on one scale, each in units of its own clean points' distance from their middle.

    Scales of different networks mean nothing, and in t-SNE no scale does; what compares is how noise moves points
    relative to how the clean ones lie.

    Args:
        pictures: title, points of the clean and of the noisy side, which of the two to draw, and labels.
        name: of a class.
    """
    sides = [[_relative(side, clean=both[0]) for side in both] for _, both, _, _ in pictures]
    reach = max((max(map(abs, point)) for both in sides for side in both for point in side), default=1.0) or 1.0
    return [
        Scatter(title, _marks(both[which], labels, reach, name), len(labels))
        for (title, _, which, labels), both in zip(pictures, sides, strict=True)
    ]


def _relative(points: Sequence[Point], clean: Sequence[Point]) -> list[Point]:
    middle = [math.fsum(axis) / len(clean) for axis in zip(*clean, strict=True)]
    size = math.sqrt(math.fsum((x - middle[0]) ** 2 + (y - middle[1]) ** 2 for x, y in clean) / len(clean)) or 1.0
    return [((x - middle[0]) / size, (y - middle[1]) / size) for x, y in points]


def _marks(points: Sequence[Point], labels: Sequence[int], reach: float, name: Callable[[int], str]) -> list[Marks]:
    order = sorted(zip(labels, points, strict=True))
    marks = []
    for label, group in itertools.groupby(order, key=lambda each: each[0]):
        colour, shape = style(label)
        path = "".join(f"M{_place(x, reach)} {_place(-y, reach)}{SHAPES[shape]}" for _, (x, y) in group)
        marks.append(Marks(name(label), path, colour, shape))
    return marks


def _place(value: float, reach: float) -> str:
    return f"{SIDE / 2 + value / reach * (SIDE / 2 - MARGIN):.1f}"
