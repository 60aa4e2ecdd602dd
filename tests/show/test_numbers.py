from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from holdfast.questions.features import presentation as features
from holdfast.questions.mixing.gradients import correlation_text
from holdfast.report import robustbench, training
from holdfast.report.shares import Share
from holdfast.show import numbers


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


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.123456, 0.1235), (-1234567.0, -1235000.0), (1.5e-9, 1.5e-9), (2.0, 2.0), (math.inf, math.inf)],
)
def test_charts_have_four_digits(value: float, expected: float) -> None:
    assert numbers.rounded(value) == expected
    assert str(numbers.rounded(-0.0)) == "0.0"


@pytest.mark.parametrize("value", [-0.0, -1e-9])
@pytest.mark.parametrize(
    "write",
    [
        numbers.percent,
        lambda value: numbers.interval(value, value),
        numbers.points,
        numbers.count,
        numbers.decimal,
        correlation_text,
        lambda value: robustbench._percent(Share(value, 0.0, 1.0)),
        lambda value: (
            features._cell({"clean": {"silhouette": {"value": value, "error": 0.0}}}, "clean", "silhouette").note
        ),
    ],
)
def test_zero_has_no_sign(write: Callable[[float], str], value: float) -> None:
    assert "-" not in write(value)
    assert "−" not in write(value)


@pytest.mark.parametrize("write", [numbers.short, lambda v: training._measured(v).text])
def test_a_rounded_zero_has_no_sign(write: Callable[[float], str]) -> None:
    assert write(-0.0) == "0"


def test_an_interval_after_a_mean_is_half_its_width_or_nothing():
    assert numbers.give_or_take(None, "{:.2f}".format) == ""
    assert numbers.give_or_take(0.126, "{:.2f}".format) == "± 0.13"
