from __future__ import annotations

import pytest

from holdfast.report import numbers


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (numbers.percent(0.9716), "97.2 %"),
        (numbers.interval(0.4067, 0.4944), "[40.7, 49.4]"),
        (numbers.points(0.032), "▲ +3.2"),
        (numbers.points(-0.032), "▼ −3.2"),
        (numbers.points(-0.0001), "= 0.0"),
        (numbers.p_value(0.0004), "< 0.001"),
        (numbers.p_value(0.0312), "0.031"),
        (numbers.count(12345), "12\u202f345"),
        (numbers.counts([500, 100, 500]), "100 to 500"),
        (numbers.several(1, "check"), "1 check"),
        (numbers.decimal(None), "not recorded"),
        (numbers.listed(["a", "b", "c"], limit=2), "a, b and 1 more"),
    ],
)
def test_numbers_are_written_one_way(written: str, expected: str) -> None:
    assert written.replace("\u00a0", " ") == expected
