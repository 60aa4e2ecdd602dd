import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import xlogy

from holdfast.statistics import (
    Interval,
    Spread,
    bernoulli_divergence,
    clopper_pearson,
    entropy,
    fair_coin_test,
    lower_bounds,
    mcnemar,
    noise_area,
    sequential_lower_bounds,
    spread,
    trapezoid,
    wilson,
    without_guessing,
)
from tests import chance

COUNTS = [(0, 1), (1, 1), (0, 30), (30, 30), (1, 30), (15, 30), (457, 500), (9999, 10000)]


@pytest.mark.parametrize(("ours", "theirs"), [(wilson, "wilson"), (clopper_pearson, "exact")])
@pytest.mark.parametrize("alpha", [0.05, 0.001, 0.5])
@pytest.mark.parametrize(("successes", "trials"), COUNTS)
def test_intervals_agree_with_scipy(ours, theirs, successes, trials, alpha):
    expected = stats.binomtest(successes, trials).proportion_ci(1 - alpha, method=theirs)
    interval = ours(successes, trials, alpha=alpha)
    assert interval.low == pytest.approx(expected.low, rel=1e-9, abs=1e-12)
    assert interval.high == pytest.approx(expected.high, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("successes", "trials", "low"),
    [  # One-sided bounds at alpha .001 are the lower ends of two-sided intervals at .002.
        (100000, 100000, 0.9999309248),
        (99900, 100000, 0.9986509924),
        (90000, 100000, 0.8970364962),
        (60000, 100000, 0.5952010473),
        (50500, 100000, 0.5001089517),
        (100, 100, 0.9332543008),
    ],
)
def test_clopper_pearson_has_the_reference_values(successes, trials, low):
    assert clopper_pearson(successes, trials, alpha=0.002).low == pytest.approx(low, abs=1e-9)


@pytest.mark.parametrize("interval", [wilson, clopper_pearson])
@given(st.integers(0, 200), st.integers(1, 200), st.floats(0.001, 0.999))
def test_intervals_hold_the_share_and_turn_with_success_and_failure(interval, successes, trials, alpha):
    successes = min(successes, trials)
    found = interval(successes, trials, alpha=alpha)
    assert 0 <= found.low <= found.high <= 1
    if alpha <= 0.5:  # at lower confidence the exact interval may exclude the share's own value at the ends
        assert found.low <= successes / trials + 1e-12
        assert found.high >= successes / trials - 1e-12
    turned = interval(trials - successes, trials, alpha=alpha)
    assert turned.low == pytest.approx(1 - found.high, abs=1e-9)
    assert turned.high == pytest.approx(1 - found.low, abs=1e-9)


def test_all_and_none_reach_the_ends_exactly():
    for interval in (wilson, clopper_pearson):
        assert interval(0, 17).low == 0
        assert interval(17, 17).high == 1


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.93, 0.999])
@pytest.mark.parametrize("trials", [5, 40])
def test_clopper_pearson_covers_every_share_as_often_as_it_says(share, trials):
    # Not a simulation: the coverage is a finite sum over all outcomes.
    intervals = [clopper_pearson(k, trials, alpha=0.1) for k in range(trials + 1)]
    covered = sum(
        stats.binom.pmf(k, trials, share) for k, found in enumerate(intervals) if found.low <= share <= found.high
    )
    assert covered >= 0.9


def test_clopper_pearson_covers_in_simulation():
    draws = np.random.default_rng(0).binomial(50, 0.8, size=4000)
    intervals = {k: clopper_pearson(int(k), 50) for k in np.unique(draws)}
    covered = np.mean([intervals[k].low <= 0.8 <= intervals[k].high for k in draws])
    assert covered >= 0.95 - chance.share_error(4000, 0.05)


def test_wilson_covers_about_as_often_as_it_says():
    intervals = [wilson(k, 100) for k in range(101)]
    for share in (0.1, 0.5, 0.9):
        covered = sum(
            stats.binom.pmf(k, 100, share) for k, found in enumerate(intervals) if found.low <= share <= found.high
        )
        assert covered == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("arguments", [(-1, 10), (11, 10), (0, 0)])
@pytest.mark.parametrize("interval", [wilson, clopper_pearson])
def test_impossible_counts_are_refused(interval, arguments):
    with pytest.raises(ValueError, match="expected 0 <= successes <= trials"):
        interval(*arguments)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1])
def test_impossible_confidence_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1"):
        wilson(1, 2, alpha=alpha)


def outcomes(both, only_first, only_second, neither):
    first = [True] * both + [True] * only_first + [False] * only_second + [False] * neither
    second = [True] * both + [False] * only_first + [True] * only_second + [False] * neither
    return first, second


@pytest.mark.parametrize(("only_first", "only_second"), [(0, 0), (1, 0), (5, 5), (10, 2), (2, 10), (60, 40), (70, 30)])
def test_mcnemar_is_the_exact_binomial_test_of_the_disagreements(only_first, only_second):
    found = mcnemar(*outcomes(40, only_first, only_second, 7))
    trials = only_first + only_second
    expected = stats.binomtest(only_first, trials, 0.5).pvalue if trials else 1.0
    assert found.p_value == pytest.approx(expected, rel=1e-9)
    assert (found.only_first, found.only_second, found.examples) == (only_first, only_second, 47 + trials)
    assert found.difference == pytest.approx((only_first - only_second) / (47 + trials))


def test_mcnemar_has_the_reference_values():
    # Binomial p of 60/40 and 70/30.
    assert mcnemar(*outcomes(0, 60, 40, 0)).p_value == pytest.approx(0.0568879, abs=1e-7)
    assert mcnemar(*outcomes(0, 70, 30, 0)).p_value == pytest.approx(7.85014e-5, abs=1e-10)


def test_mcnemar_turns_with_its_arguments():
    first, second = outcomes(3, 4, 9, 2)
    here, there = mcnemar(first, second), mcnemar(second, first)
    assert here.difference == -there.difference
    assert here.p_value == there.p_value


def test_mcnemar_refuses_other_examples():
    with pytest.raises(ValueError, match="got 2 and 3"):
        mcnemar([True, False], [True, False, True])
    with pytest.raises(ValueError, match="got 0 and 0"):
        mcnemar([], [])


def test_trapezoid_is_exact_for_broken_lines():
    assert trapezoid([2.0, 2.0], [0.0, 3.0]) == 6
    assert trapezoid([0.0, 1.0], [0.0, 1.0]) == 0.5
    assert trapezoid([0.0, 2.0, 0.0], [0.0, 1.0, 4.0]) == 4


def test_trapezoid_has_the_reference_value():
    # AUC_GN: normalised accuracies at steps of .2.
    values = [0.98, 0.94826537, 0.75920680, 0.30327869, 0.04494382, 0.0]
    assert trapezoid(values, [0.2 * k for k in range(6)]) == pytest.approx(0.5091389352, abs=1e-8)


@given(st.lists(st.tuples(st.floats(0.01, 10), st.floats(-10, 10)), min_size=2, max_size=8))
def test_trapezoid_agrees_with_numpy_and_adds_up(points):
    positions = np.cumsum([step for step, _ in points]).tolist()
    values = [value for _, value in points]
    whole = trapezoid(values, positions)
    assert whole == pytest.approx(float(np.trapezoid(values, positions)), abs=1e-9)
    if len(points) > 2:
        parts = trapezoid(values[:2], positions[:2]) + trapezoid(values[1:], positions[1:])
        assert whole == pytest.approx(parts, abs=1e-9)


def test_trapezoid_refuses_what_has_no_area():
    with pytest.raises(ValueError, match="two or more points"):
        trapezoid([1.0], [0.0])
    with pytest.raises(ValueError, match="2 values at 3 positions"):
        trapezoid([1.0, 2.0], [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="increasing"):
        trapezoid([1.0, 2.0], [1.0, 1.0])


def test_intervals_compare_by_value():
    assert wilson(3, 10) == wilson(3, 10)
    assert Interval(0.1, 0.2) != Interval(0.1, 0.3)


def test_noise_area_is_the_reference_value():
    # Computed apart.
    accuracies, step = (0.98, 0.95, 0.80, 0.50, 0.25, 0.13), 0.2
    expected = (0.98, 0.94826537, 0.75920680, 0.30327869, 0.04494382, 0)
    assert without_guessing(accuracies) == pytest.approx(expected, abs=1e-8)
    assert noise_area(accuracies, [step * j for j in range(6)]) == pytest.approx(0.5091389352, abs=1e-10)


def test_a_curve_that_noise_does_not_lower_stays():
    assert without_guessing((0.9, 0.9, 0.95)) == (0.9, 0.9, 0.95)


def floats(*values):
    return np.array(values, dtype=np.float64)


def test_lower_bounds_have_the_reference_values():
    # Certify at alpha .001
    successes = floats(100_000, 99_900, 90_000, 60_000, 50_500, 100, 0)
    trials = floats(100_000, 100_000, 100_000, 100_000, 100_000, 100, 7)
    expected = [0.9999309248, 0.9986509924, 0.8970364962, 0.5952010473, 0.5001089517, 0.9332543008, 0.0]
    np.testing.assert_allclose(lower_bounds(successes, trials, alpha=0.001), expected, atol=1e-10)


@settings(max_examples=50)
@given(st.integers(0, 500), st.integers(0, 500), st.floats(1e-6, 0.4))
def test_lower_bounds_are_the_lower_ends_of_two_sided_intervals(successes, failures, alpha):
    trials = successes + failures + 1
    ours = lower_bounds(floats(successes), floats(trials), alpha=alpha)
    assert ours[0] == pytest.approx(clopper_pearson(successes, trials, alpha=2 * alpha).low, rel=1e-9, abs=1e-15)


def wager(share, successes, failures):
    """The stake of the wager against `share`, by quadrature; theta = 1 - (1 - share) u^2 takes the pole away."""

    def ratio(u):
        left = (1 - share) * u * u
        return (
            np.exp(successes * np.log((1 - left) / share) + failures * np.log(left / (1 - share)))
            if u
            else 0.0**failures
        )

    return integrate.quad(ratio, 0, 1, limit=200)[0]


@pytest.mark.parametrize("alpha", [0.05, 0.001])
@pytest.mark.parametrize(("successes", "failures"), [(30, 0), (55, 9), (400, 100), (1000, 3), (520, 480)])
def test_sequential_bounds_refute_what_the_wager_refutes(successes, failures, alpha):
    (bound,) = sequential_lower_bounds(floats(successes), floats(successes + failures), alpha=alpha)
    assert wager(bound, successes, failures) == pytest.approx(1 / alpha, rel=1e-3)
    assert wager(bound, successes, failures) >= (1 - 1e-9) / alpha  # never more than is refuted


@settings(max_examples=50)
@given(st.integers(0, 3000), st.integers(0, 3000), st.floats(1e-6, 0.5))
def test_sequential_bounds_grow_with_success_and_stay_below_the_fixed_ones(successes, failures, alpha):
    trials = floats(successes + failures + 1)
    few, more = (sequential_lower_bounds(floats(successes + k), trials, alpha=alpha)[0] for k in (0, 1))
    assert few <= more
    assert 0 <= few <= lower_bounds(floats(successes), trials, alpha=alpha)[0] + 1e-12
    assert sequential_lower_bounds(floats(0), trials, alpha=alpha)[0] == 0


@pytest.mark.parametrize("share", [0.5, 0.97])
def test_sequential_bounds_are_rarely_ever_wrong(share):
    draws = np.random.default_rng(0).random((2000, 1500)) < share
    successes = draws.cumsum(1)
    looks = np.unique(np.geomspace(1, 1500, 40).round()).astype(int)
    bounds = sequential_lower_bounds(
        successes[:, looks - 1].astype(np.float64),
        np.broadcast_to(looks.astype(np.float64), (2000, len(looks))),
        alpha=0.1,
    )
    ever = (bounds > share).any(1).mean()
    assert 0.005 < ever <= 0.1 + chance.share_error(2000, 0.1)
    assert bounds[:, -1].mean() > share - chance.deviations() * np.sqrt(share * (1 - share) / 1500)


def test_the_fair_coin_test_has_the_reference_values():
    # Binomial p of 60/40 and 70/30
    found = fair_coin_test(floats(60, 70, 40, 50, 0), floats(40, 30, 60, 50, 0))
    np.testing.assert_allclose(found, [0.0568879, 7.85014e-5, 0.0568879, 1, 1], rtol=2e-6)


@settings(max_examples=25)
@given(st.integers(0, 200), st.integers(0, 200))
def test_the_fair_coin_test_agrees_with_scipy(first, second):
    expected = stats.binomtest(first, first + second, 0.5).pvalue if first + second else 1.0
    assert fair_coin_test(floats(first), floats(second))[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
def test_entropy_of_equal_counts_is_the_logarithm_of_their_number(classes):
    assert entropy([7] * classes) == pytest.approx(math.log(classes))
    assert entropy([5, 0]) == 0
    assert entropy([1, 3]) == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))


def test_divergence_of_coins_in_closed_form():
    assert bernoulli_divergence(0.3, 0.3) == 0
    assert bernoulli_divergence(1.0, 0.1) == pytest.approx(math.log(10))
    assert bernoulli_divergence(0.5, 0.25) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert bernoulli_divergence(0.5, 0.0) == math.inf


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=3, max_size=3))
def test_an_accuracy_never_proves_more_information_than_there_is(table):
    """Mutual information of label (row) and answer (column), against the divergence of their agreement."""
    joint = np.array(table, dtype=float)
    joint /= max(joint.sum(), 1)
    product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    information = float(xlogy(joint, np.where(joint > 0, joint / np.where(product > 0, product, 1), 1)).sum())
    accuracy, guessing = (min(1.0, float(np.trace(one))) for one in (joint, product))
    if joint.sum() and 0 < guessing < 1:
        assert bernoulli_divergence(accuracy, guessing) <= information + 1e-12


def test_spread_in_closed_form():
    sample = spread([1.0, 2.0, 3.0, 6.0])
    assert sample.mean == 3.0
    assert sample.deviation == pytest.approx(math.sqrt(14 / 3))
    assert sample.half == pytest.approx(1.959964 * math.sqrt(14 / 3) / 2)
    assert spread([0.25]) == Spread(0.25, None, None)  # one number says nothing of its error
