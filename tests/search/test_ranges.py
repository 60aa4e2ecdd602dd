"""Ranges: what may be drawn, and what is refused."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.search import RANGES, Choice, Log, Uniform, Whole


def test_places_run_from_one_end_to_the_other():
    assert [Uniform(low=2, high=6).place(v) for v in (2, 3, 6)] == [0, 0.25, 1]
    assert [Log(low=0.01, high=100).place(v) for v in (0.01, 1, 100)] == pytest.approx([0, 0.5, 1])
    assert [Whole(low=1, high=5).place(v) for v in (1, 2, 5)] == [0, 0.25, 1]
    assert [Choice(values=("a", 2, None)).place(v) for v in ("a", "2", "null")] == [0, 0.5, 1]


def test_what_can_be_counted_is_a_grid():
    assert Uniform(low=0, high=1, step=0.25).grid() == (0, 0.25, 0.5, 0.75, 1)
    assert Uniform(low=0, high=1).grid() == Log(low=1, high=2).grid() == ()
    assert Whole(low=2, high=8, step=3).grid() == (2, 5, 8)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=3), st.integers(), st.booleans(), st.none()), min_size=2, max_size=6))
def test_a_choice_gives_back_the_value_it_was_drawn_for(values):
    try:
        choice = Choice(values=tuple(values))
    except ValueError:
        return  # two that print alike
    for drawn, value in zip(choice.distribution().choices, values, strict=True):
        assert choice.decode(drawn) is value or choice.decode(drawn) == value
        assert type(choice.decode(drawn)) is type(value)


def test_a_choice_may_hold_whole_methods():
    methods = ({"sgd": {"lr": 0.1}}, {"adam": {"lr": 0.001}})
    choice = Choice(values=methods)
    assert [choice.decode(drawn) for drawn in choice.distribution().choices] == list(methods)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform(low=2, high=1), "low must be below high, got 2 and 1"),
        (lambda: Uniform(low=1, high=1), "low must be below high"),
        (lambda: Uniform(low=0, high=math.inf), "must be finite"),
        (lambda: Uniform(low=0, high=1, step=0.3), "step must divide the range from 0 to 1, got 0.3"),
        (lambda: Uniform(low=0, high=1, step=-1), "step must be positive"),
        (lambda: Log(low=0, high=1), "low must be positive in a log range, got 0"),
        (lambda: Log(low=2, high=1), "low must be below high"),
        (lambda: Whole(low=3, high=1), "low must be below high"),
        (lambda: Whole(low=0, high=3, step=2), "step must divide"),
        (lambda: Choice(values=("a",)), "at least two expected, got 1"),
        (lambda: Choice(values=(1, 2, 1)), "all different expected, got 1 2 times"),
    ],
)
def test_impossible_ranges_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_every_range_has_a_name():
    assert list(RANGES) == ["uniform", "log", "int", "choice"]
