"""A surface in three dimensions as a picture."""

from __future__ import annotations

import re

import pytest

from holdfast.questions.surface.relief import CELLS, LEVELS, relief, shade
from holdfast.show.pictures import Picture, Shape


def drawn(values: list[list[float | None]], high: float = 1.0, marks: tuple[tuple[str, float, float], ...] = ()):  # type: ignore[no-untyped-def]
    return relief("a", values, high=high, marks=marks, along="gradient", across="random")


def places(path: str) -> list[list[tuple[float, float]]]:
    return [
        [tuple(map(float, pair.split())) for pair in polygon.strip("Mz").split("L")]  # type: ignore[misc]
        for polygon in re.findall(r"M[^z]*z", path)
    ]


def styled(picture: Picture, style: str) -> list[str]:
    return [shape.path for shape in picture.shapes if shape.style == style]


def cells(picture: Picture) -> list[Shape]:
    return [shape for shape in picture.shapes if shape.fill]


def feet(picture: Picture) -> list[tuple[float, float]]:
    """Where the lines that hold names begin."""
    return [tuple(map(float, path[1:].partition("V")[0].split())) for path in styled(picture, "stem")]  # type: ignore[misc]


def flat(size: int, value: float = 0.0) -> list[list[float | None]]:
    return [[value] * size for _ in range(size)]


def test_a_flat_surface_at_zero_is_its_base() -> None:
    picture = drawn(flat(3))
    (base,) = places(*styled(picture, "base"))
    corners = {point for cell in cells(picture) for quad in places(cell.path) for point in quad}
    assert set(base) <= corners
    for axis in (0, 1):
        assert min(p[axis] for p in corners) == min(p[axis] for p in base)
        assert max(p[axis] for p in corners) == max(p[axis] for p in base)
    assert sum(len(places(cell.path)) for cell in cells(picture)) == 4
    assert {cell.fill for cell in cells(picture)} == {shade(0.0)}


def test_height_is_the_share_of_the_highest_value() -> None:
    low, half, full = (drawn(flat(3, value), high=4.0) for value in (0.0, 2.0, 4.0))
    lows, halves, fulls = (places(cells(each)[0].path)[0][0][1] for each in (low, half, full))
    assert lows - halves == pytest.approx(halves - fulls)
    assert lows > fulls  # up is a smaller number in a picture
    assert full.description == "a: loss from 4 to 4"


def test_cells_come_from_behind_to_the_front() -> None:
    """A later cell may cover an earlier one, never the other way round: feet of cells move down the picture."""
    picture = drawn([[float(row + column) for column in range(5)] for row in range(5)], high=1e9)
    lowest = [max(y for _, y in quad) for cell in cells(picture) for quad in places(cell.path)]
    assert lowest == sorted(lowest)


def test_columns_go_right_and_rows_go_left() -> None:
    values = flat(3)
    values[0][2] = 1.0  # the last column, the first row
    (right,) = feet(drawn(values, marks=(("here", 1.0, -1.0),)))
    values = flat(3)
    values[2][0] = 1.0
    (left,) = feet(drawn(values, marks=(("here", -1.0, 1.0),)))
    assert right[0] > left[0]
    assert right[1] == left[1]  # both stand on the peak
    (foot,) = feet(drawn(flat(3), marks=(("here", 1.0, -1.0),)))
    assert foot[1] > right[1]


def test_large_grids_are_thinned_to_ends_and_middle() -> None:
    values = flat(81)
    values[40][40] = 1.0  # the middle
    picture = drawn(values, marks=(("here", 0.0, 0.0),))
    assert sum(len(places(cell.path)) for cell in cells(picture)) <= CELLS**2
    assert picture.description.endswith("to 1")  # still there
    odd = drawn(flat(2 * 13 + 1))  # 13 has no divisor but itself: two cells along a side
    assert sum(len(places(cell.path)) for cell in cells(odd)) == 4


def test_what_is_no_number_is_a_hole() -> None:
    values = flat(3)
    values[0][0] = None
    assert sum(len(places(cell.path)) for cell in cells(drawn(values))) == 3


def test_colours_are_those_of_the_heat_map() -> None:
    assert (shade(0.0), shade(1.0)) == ("#2b7bb9", "#e08214")
    assert shade(-1.0) == shade(0.0)
    assert len({shade(share / 1000) for share in range(1001)}) == LEVELS


def test_names_stand_above_their_points_and_directions_below() -> None:
    picture = drawn(flat(3), marks=(("image", 0.0, 0.0), ("pgd", 0.5, 0.0)))
    words = {each.text: each for each in picture.words}
    assert list(words) == ["image", "pgd", "gradient ↗", "↖ random"]
    for name, (x, y) in zip(("image", "pgd"), feet(picture), strict=True):
        assert words[name].x == pytest.approx(x, abs=0.05)
        assert words[name].y < y
    assert len(styled(picture, "foot")) == 2
