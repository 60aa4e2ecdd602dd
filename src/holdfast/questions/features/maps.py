"""Points of classes in a plane as small pictures: a path for each class, which needs no script to be drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from holdfast.show.figures import COLOURS, SYMBOLS, Key
from holdfast.show.pictures import Picture, Shape

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


def style(label: int) -> tuple[int, int]:
    """Number of the colour and of the symbol of a class."""
    return label % COLOURS, ORDER[label // COLOURS % len(ORDER)]


def legend(labels: Sequence[int], name: Callable[[int], str]) -> tuple[Key, ...]:
    """The classes, up to as many as look different."""
    return tuple(Key(name(label), *style(label), point=True) for label in sorted({*labels})[:STYLES])


def scatters(
    maps: Sequence[tuple[str, Sequence[Sequence[Point]], Sequence[int]]], name: Callable[[int], str]
) -> list[Picture]:
    """Pictures of clean and noisy points on one scale, in units of the clean points' distance from their middle.

    Scales of different networks mean nothing, and in t-SNE no scale does; what compares is how noise moves points
    relative to how the clean ones lie.

    Args:
        maps: name of the network, its clean and noisy points, and labels.
        name: of a class.
    """
    scaled = [[_relative(side, clean=sides[0]) for side in sides] for _, sides, _ in maps]
    reach = max((max(map(abs, point)) for sides in scaled for side in sides for point in side), default=1.0) or 1.0
    return [
        Picture(f"{who}, {side}: {len(labels)} images", SIDE, SIDE, [*_shapes(points, labels, reach, name)],
                caption=f"{who}, {side}")
        for (who, _, labels), sides in zip(maps, scaled, strict=True)
        for side, points in zip(("clean", "noisy"), sides, strict=True)
    ]  # fmt: skip


def _relative(points: Sequence[Point], clean: Sequence[Point]) -> list[Point]:
    middle = [math.fsum(axis) / len(clean) for axis in zip(*clean, strict=True)]
    size = math.sqrt(math.fsum((x - middle[0]) ** 2 + (y - middle[1]) ** 2 for x, y in clean) / len(clean)) or 1.0
    return [((x - middle[0]) / size, (y - middle[1]) / size) for x, y in points]


def _shapes(
    points: Sequence[Point], labels: Sequence[int], reach: float, name: Callable[[int], str]
) -> Iterator[Shape]:
    for label, group in itertools.groupby(sorted(zip(labels, points, strict=True)), key=lambda each: each[0]):
        colour, symbol = style(label)
        path = "".join(f"M{_place(x, reach)} {_place(-y, reach)}{SHAPES[symbol]}" for _, (x, y) in group)
        yield Shape(path, f"mark-{symbol}", ink=colour, label=name(label))


def _place(value: float, reach: float) -> str:
    return f"{SIDE / 2 + value / reach * (SIDE / 2 - MARGIN):.1f}"
