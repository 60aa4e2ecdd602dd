"""Error rates by denominator and paired changes, from rows that were made up."""

import itertools

import polars as pl
import pytest

from holdfast.errors import LedgerError
from holdfast.results.transfers import CLEAN, Transfers, check_name, qualified

ATTACK = "mi linf eps=8/255"


def rows(right):
    """Rows of made-up outcomes: `right[network, check]` has one character for each example, 1 where it is right."""
    return pl.DataFrame(
        [
            {"run": network, "check": check, "example": example, "correct": one == "1"}
            for (network, check), marks in right.items()
            for example, one in enumerate(marks)
        ]
    )


def of(name):
    return check_name(ATTACK, name)


OUTCOMES = {
    ("a", CLEAN): "11110",
    ("b", CLEAN): "11011",
    ("a", of("a")): "00110",
    ("b", of("a")): "01000",
    ("b", of("b")): "01001",
    ("a", of("b")): "11110",
}


def transfers(right=OUTCOMES, targets=("a", "b"), sources=("a", "b")):
    return Transfers(rows(right), sources, (ATTACK,), targets)


def test_exactly_one_of_the_16_outcomes_is_qualified():
    # Public code chains equality tests, which is parity: it lets 8 of them pass.
    passes = [pattern for pattern in itertools.product((False, True), repeat=4) if qualified(*pattern)]
    assert passes == [(True, True, True, True)]


@pytest.mark.parametrize("pattern", list(itertools.product("01", repeat=4)))
def test_the_qualified_set_of_a_matrix_is_that_of_its_rows(pattern):
    clean_source, clean_target, source_survives, target_survives = pattern
    right = {
        ("a", CLEAN): clean_source, ("b", CLEAN): clean_target, ("a", of("a")): source_survives,
        ("b", of("b")): target_survives, ("b", of("a")): "0", ("a", of("b")): "0",
    }  # fmt: skip
    rate = transfers(right).rate("a", ATTACK, "b", "qualified")
    assert rate.examples == (pattern == ("1", "1", "0", "0"))


def test_error_rates_are_shares_of_the_stated_examples():
    made = transfers()
    rates = {name: made.rate("a", ATTACK, "b", name) for name in ("all", "right on both", "qualified")}
    assert {name: (rate.errors, rate.examples) for name, rate in rates.items()} == {
        "all": (4, 5),  # a clean error of the target counts
        "right on both": (2, 3),
        "qualified": (1, 1),
    }
    assert rates["right on both"].share == pytest.approx(2 / 3)
    assert rates["right on both"].interval.low < 2 / 3 < rates["right on both"].interval.high
    white_box = made.rate("a", ATTACK, "a", "right on both")
    assert (white_box.errors, white_box.examples) == (2, 4)


def test_the_qualified_set_needs_points_that_were_made_on_the_target():
    made = transfers(sources=("a",))
    assert made.rate("a", ATTACK, "b", "qualified") is None
    assert made.rate("a", ATTACK, "b", "right on both").examples == 3


def test_no_examples_have_no_rate():
    rate = transfers({**OUTCOMES, ("a", CLEAN): "00000"}).rate("a", ATTACK, "b", "right on both")
    assert (rate.examples, rate.share, rate.interval) == (0, None, None)


def test_changes_are_paired_over_what_all_three_get_right():
    right = {
        ("a", CLEAN): "111110", ("aligned", CLEAN): "111101", ("t", CLEAN): "111011",
        ("t", of("a")): "110000", ("t", of("aligned")): "001000",
    }  # fmt: skip
    change = transfers(right, targets=("t",), sources=("a", "aligned")).change("a", "aligned", ATTACK, "t")
    assert change.paired.examples == 3
    assert (change.paired.only_first, change.paired.only_second) == (2, 1)
    assert change.paired.difference == pytest.approx(1 / 3)


def test_rows_that_are_missing_or_of_other_examples_are_refused():
    with pytest.raises(LedgerError, match="expected rows of a finished matrix"):
        transfers(sources=("a", "b", "c")).rate("c", ATTACK, "b", "all")
    with pytest.raises(LedgerError, match="the same as everywhere"):
        transfers({**OUTCOMES, ("b", CLEAN): "11"}).rate("a", ATTACK, "b", "all")
