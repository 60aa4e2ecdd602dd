"""A surface in three dimensions as a picture."""

from __future__ import annotations

import re

import pytest

from holdfast.report.relief import CELLS, LEVELS, relief, shade


def drawn(values: list[list[float | None]], high: float = 1.0, marks: tuple[tuple[str, float, float], ...] = ()):  # type: ignore[no-untyped-def]
    return relief("a", values, high=high, marks=marks, along="gradient", across="random")


def places(path: str) -> list[list[tuple[float, float]]]:
    return [
        [tuple(map(float, pair.split())) for pair in polygon.strip("Mz").split("L")]  # type: ignore[misc]
        for polygon in re.findall(r"M[^z]*z", path)
    ]


def flat(size: int, value: float = 0.0) -> list[list[float | None]]:
    return [[value] * size for _ in range(size)]


def test_a_flat_surface_at_zero_is_its_base() -> None:
    found = drawn(flat(3))
    (base,) = places(found.edges)
    corners = {point for path, _ in found.cells for quad in places(path) for point in quad}
    assert set(base) <= corners
    for axis in (0, 1):
        assert min(p[axis] for p in corners) == min(p[axis] for p in base)
        assert max(p[axis] for p in corners) == max(p[axis] for p in base)
    assert sum(len(places(path)) for path, _ in found.cells) == 4
    assert {colour for _, colour in found.cells} == {shade(0.0)}


def test_height_is_the_share_of_the_highest_value() -> None:
    low, half, full = (drawn(flat(3, value), high=4.0) for value in (0.0, 2.0, 4.0))
    lows, halves, fulls = (places(each.cells[0][0])[0][0][1] for each in (low, half, full))
    assert lows - halves == pytest.approx(halves - fulls)
    assert lows > fulls  # up is a smaller number in a picture
    assert (full.low, full.high) == (4.0, 4.0)


def test_cells_come_from_behind_to_the_front() -> None:
    """A later cell may cover an earlier one, never the other way round: feet of cells move down the picture."""
    found = drawn([[float(row + column) for column in range(5)] for row in range(5)], high=1e9)
    feet = [max(y for _, y in quad) for path, _ in found.cells for quad in places(path)]
    assert feet == sorted(feet)


def test_columns_go_right_and_rows_go_left() -> None:
    values = flat(3)
    values[0][2] = 1.0  # the last column, the first row
    (right,) = drawn(values, marks=(("here", 1.0, -1.0),)).pins
    values = flat(3)
    values[2][0] = 1.0
    (left,) = drawn(values, marks=(("here", -1.0, 1.0),)).pins
    assert right[1][0] > left[1][0]
    assert right[1][1] == left[1][1]  # both stand on the peak
    (foot,) = drawn(flat(3), marks=(("here", 1.0, -1.0),)).pins
    assert foot[1][1] > right[1][1]


def test_large_grids_are_thinned_to_ends_and_middle() -> None:
    values = flat(81)
    values[40][40] = 1.0  # the middle
    found = drawn(values, marks=(("here", 0.0, 0.0),))
    assert sum(len(places(path)) for path, _ in found.cells) <= CELLS**2
    assert found.high == 1.0  # still there
    odd = drawn(flat(2 * 13 + 1))  # 13 has no divisor but itself: two cells along a side
    assert sum(len(places(path)) for path, _ in odd.cells) == 4


def test_what_is_no_number_is_a_hole() -> None:
    values = flat(3)
    values[0][0] = None
    assert sum(len(places(path)) for path, _ in drawn(values).cells) == 3


def test_colours_are_those_of_the_heat_map() -> None:
    assert (shade(0.0), shade(1.0)) == ("#2b7bb9", "#e08214")
    assert shade(-1.0) == shade(0.0)
    assert len({shade(share / 1000) for share in range(1001)}) == LEVELS
