import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from holdfast.statistics import Interval, clopper_pearson, mcnemar, trapezoid, wilson

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
    [  # METHODS 4.5: one-sided bounds at alpha .001 are the lower ends of two-sided intervals at .002.
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
    assert covered >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / 4000)


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
    # METHODS 4.5, binomial p of 60/40 and 70/30.
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
    # METHODS 4.5, AUC_GN: normalised accuracies at steps of .2.
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
