"""From counts to verdicts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.statistics import exceeds
from holdfast.trust import rules
from holdfast.trust.rules import Pair, Rung, beaten, growing, level


@pytest.mark.parametrize("count", range(6))
def test_the_exact_test_sums_the_binomial_distribution(count):
    expected = sum(math.comb(9, k) * 0.1**k * 0.9 ** (9 - k) for k in range(count, 10))
    assert exceeds(count, 9, 0.1) == pytest.approx(expected, rel=1e-12)


def test_the_exact_test_refuses_what_is_no_count_or_share():
    for arguments in ((3, 2, 0.1), (-1, 2, 0.1), (0, 0, 0.1), (1, 2, 1.0), (1, 2, -0.1)):
        with pytest.raises(ValueError, match=r"expected 0 <=|share must"):
            exceeds(*arguments)


# Where the table in docs/audit.md says that a warning and a failure begin, with two points tolerated.
@pytest.mark.parametrize(
    ("trials", "warn", "fail"), [(32, 3, 4), (64, 4, 5), (100, 5, 7), (200, 8, 10), (500, 15, 19), (10_000, 219, 234)]
)
def test_limits_are_where_the_documentation_says(trials, warn, fail):
    assert [level(count, trials) for count in (warn - 1, warn, fail - 1, fail)] == ["pass", "warn", "warn", "fail"]


@given(st.integers(2, 10_000))
def test_one_or_two_examples_never_alarm(trials):
    assert level(2, trials) == "pass"


def test_counts_what_each_attack_breaks_alone():
    assert Pair.of([True, True, False, True], [False, True, True, False]) == Pair(2, 1, 4)


def test_the_remedy_comes_with_the_alarm_only():
    quiet = beaten("transfer", Pair(0, 3, 64), "a", "b", "attacks")
    loud = beaten("transfer", Pair(20, 3, 64), "a", "b", "attacks")
    assert (quiet.level, quiet.remedy) == ("pass", "")
    assert loud.level == "fail"
    assert loud.remedy
    assert loud.finding == "a breaks 20 of 64 examples that b leaves unbroken"
    assert loud.value == 20 / 64


def rung(eps, standing, trials=64):
    return Rung(f"eps {eps}", eps, [index < standing for index in range(trials)])


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        ([60, 40, 20, 0], "pass"),
        ([60, 40, 42, 0], "pass"),  # two examples
        ([60, 40, 44, 0], "warn"),
        ([60, 40, 50, 0], "fail"),
        ([60, 60, 60, 60], "warn"),  # flat
        ([60, 60, 60, 59], "pass"),
        ([60, 59, 59, 59], "pass"),
        ([1, 1, 1, 1], "warn"),
        ([0, 0, 0, 0], "pass"),  # nothing left to lose
    ],
)
def test_a_larger_budget_must_break_what_a_smaller_one_does(standing, expected):
    verdict = growing([rung(eps, left) for eps, left in zip((1, 2, 4, 8), standing, strict=True)], "attacks")
    assert verdict.level == expected
    assert bool(verdict.remedy) == (expected != "pass")


def test_a_flat_curve_over_a_small_growth_is_no_news():
    assert growing([rung(1, 60), rung(3.9, 60)], "ledger").level == "pass"
    assert growing([rung(0.1, 60), rung(0.4, 60)], "ledger").level == "warn"


def test_the_value_is_the_share_of_examples_that_a_larger_budget_loses_again():
    verdict = growing([rung(1, 40), rung(2, 50), rung(4, 30)], "ledger")
    assert verdict.value == 10 / 64
    assert verdict.finding == "eps 2 leaves 10 of 64 examples unbroken that eps 1 breaks"


@pytest.mark.parametrize(("p", "expected"), [(0.01, "warn"), (0.1, "pass")])
def test_a_p_value_at_its_limit_is_not_below_it(monkeypatch, p, expected):
    monkeypatch.setattr(rules, "exceeds", lambda *_: p)
    assert level(3, 100) == expected
