"""A surface in three dimensions as a picture of filled cells, from behind to the front; it needs no script to be drawn.

The page's own policy forbids what plotly's three-dimensional charts need (functions made from text), and not every
browser has WebGL.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from holdfast.show.pictures import Picture, Shape, Words

WIDTH, HEIGHT = 320, 310
"""Of a picture in its own units."""
ACROSS, DOWN, TALL = 150, 62, 105
"""Half of the width of the base, half of its depth, and the height of the largest value."""
TOP, PIN = 45, 16
"""Room for names above, and length of the shortest line that holds one."""
CELLS = 20
"""Cells along a side at most."""
LEVELS = 16
"""Colours."""

Values = Sequence[Sequence[float | None]]


def relief(
    title: str, values: Values, *, high: float, marks: Sequence[tuple[str, float, float]], along: str, across: str
) -> Picture:
    """Draw values over a square, from 0 up.

    Args:
        title: what it shows.
        values: rows go along `across`, columns along `along`; None where there is nothing.
        high: the value that is drawn at full height, the same in pictures to compare.
        marks: name and place of points to show, from -1 to 1 along both directions.
        along: name of the direction of the columns.
        across: name of the direction of the rows.
    """
    kept = _thinned(len(values))
    grid = [[values[row][column] for column in kept] for row in kept]
    step = 2 / (len(kept) - 1)
    finite = [value for row in grid for value in row if value is not None]
    # Lines of different lengths keep names apart.
    pins = [(name, _place(a, b, _height(grid, a, b) / high), PIN * (1 + n)) for n, (name, a, b) in enumerate(marks)]
    corners = [_place(a, b, 0.0) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    shapes = [Shape(_closed([corners]), "base")]
    shapes += [Shape(_closed(quads), fill=colour) for quads, colour in _cells(grid, step, high)]
    shapes += [shape for _, place, length in pins for shape in _pin(*place, length)]
    words = [Words(name, x, y - length - 3, "pin") for name, (x, y), length in pins]
    words += [Words(f"{along} ↗", WIDTH - 2, HEIGHT - 4, "end"), Words(f"↖ {across}", 2, HEIGHT - 19)]
    low, highest = min(finite, default=0.0), max(finite, default=0.0)
    return Picture(f"{title}: loss from {low:.4g} to {highest:.4g}", WIDTH, HEIGHT, shapes, words)


def _pin(x: float, y: float, length: float) -> tuple[Shape, Shape]:
    """A line that holds a name, and the point below it."""
    foot = f"M{x - 3:.1f} {y:.1f}a3 3 0 1 0 6 0a3 3 0 1 0-6 0z"
    return Shape(f"M{x:.1f} {y:.1f}V{y - length:.1f}", "stem"), Shape(foot, "foot")


def shade(share: float) -> str:
    """The colour of a value, from 0 (low) to 1 (high), as in the heat maps."""
    low, middle, high = (43, 123, 185), (228, 224, 210), (224, 130, 20)
    level = round(min(1.0, max(0.0, share)) * (LEVELS - 1)) / (LEVELS - 1)
    start, end, part = (low, middle, 2 * level) if level < 0.5 else (middle, high, 2 * level - 1)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(start, end, strict=True))


def _cells(grid: Values, step: float, high: float) -> Iterator[tuple[list[list[tuple[float, float]]], str]]:
    """Cells from behind to the front; those beside each other do not overlap, so that a colour shares a path."""
    size = len(grid) - 1
    for depth in range(2 * size - 1):
        colours: dict[str, list[list[tuple[float, float]]]] = {}
        # The front corner is that of the first column and the first row.
        for row, column in ((size - 1 - i, size - 1 - (depth - i)) for i in range(size) if 0 <= depth - i < size):
            corners = [(row, column), (row, column + 1), (row + 1, column + 1), (row + 1, column)]
            heights = [grid[r][c] for r, c in corners]
            if any(height is None for height in heights):
                continue
            some = [height for height in heights if height is not None]
            places = [
                _place(c * step - 1, r * step - 1, height / high) for (r, c), height in zip(corners, some, strict=True)
            ]
            colours.setdefault(shade(sum(some) / 4 / high), []).append(places)
        yield from ((quads, colour) for colour, quads in colours.items())


def _place(a: float, b: float, height: float) -> tuple[float, float]:
    """Where a point stands in the picture: `a` grows to the right and back, `b` to the left and back."""
    return WIDTH / 2 + (a - b) / 2 * ACROSS, TOP + TALL + DOWN - (a + b) / 2 * DOWN - height * TALL


def _height(grid: Values, a: float, b: float) -> float:
    """The value nearest to a place, 0 where there is none."""
    row, column = (min(len(grid) - 1, max(0, round((place + 1) / 2 * (len(grid) - 1)))) for place in (b, a))
    return grid[row][column] or 0.0


def _thinned(count: int) -> list[int]:
    """Rows to keep, both ends and the middle among them."""
    half = (count - 1) // 2
    stride = next(s for s in itertools.count(1) if half % s == 0 and (count - 1) // s <= max(CELLS, 2))
    return list(range(0, count, stride))


def _closed(polygons: Sequence[Sequence[tuple[float, float]]]) -> str:
    return "".join("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + "z" for corners in polygons)
