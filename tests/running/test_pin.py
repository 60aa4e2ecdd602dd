import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.running.pin import example_lines


@settings(derandomize=True, database=None, phases=[Phase.generate, Phase.shrink])
@given(x=st.integers(), words=st.lists(st.sampled_from(["a", "b"]), min_size=1))
def fails(fixture, x, words):
    assert x < 1000


def test_a_counter_example_is_printed_as_a_decorator_without_fixtures():
    with pytest.raises(AssertionError) as caught:
        fails(object())  # <object object at 0x...> is no Python
    assert example_lines(caught.value, {"x", "words"}) == ["@example(x=1000, words=['a'])"]


@settings(derandomize=True, database=None, phases=[Phase.generate, Phase.shrink])
@given(x=st.integers(-(10**6), 10**6))
def fails_in_two_ways(x):
    assert x < 1000
    assert x > -1000, "other"


def test_every_counter_example_of_a_group_is_printed():
    with pytest.raises((ExceptionGroup, AssertionError)) as caught:
        fails_in_two_ways()
    assert set(example_lines(caught.value, {"x"})) == {"@example(x=1000)", "@example(x=-1000)"}


def test_other_errors_have_nothing_to_pin():
    assert example_lines(ValueError("no notes"), {"x"}) == []


def test_values_that_python_cannot_read_back_are_printed_as_they_are():
    error = AssertionError()
    error.add_note("Falsifying example: test(\n    x=<object>,\n    y=1,  # or any other generated value\n)")
    assert example_lines(error, {"x", "y"}) == ["@example(x=<object>, y=1)"]
