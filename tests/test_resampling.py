"""Bootstrap, ranks and least squares against closed forms and SciPy."""

import math

import numpy as np
import pytest
from scipy.stats import spearmanr, t

from holdfast.resampling import bootstrap, least_squares, rank_correlation, ranks, student_interval


def test_ranks_share_the_mean_of_equal_values():
    assert ranks([3.0, 1.0, 3.0, 2.0, 3.0]).tolist() == [4.0, 1.0, 4.0, 2.0, 4.0]


@pytest.mark.parametrize("seed", range(5))
def test_rank_correlation_is_that_of_scipy(seed):
    generator = np.random.default_rng(seed)
    x, y = generator.integers(6, size=(2, 20)).astype(float)
    assert rank_correlation(x, y) == pytest.approx(spearmanr(x, y).statistic)
    assert rank_correlation(x, x**3) == pytest.approx(1)


def test_without_two_different_values_there_is_no_correlation():
    assert math.isnan(rank_correlation([1.0, 1.0], [1.0, 2.0]))


@pytest.mark.parametrize(("x", "y"), [([], []), ([1.0], [1.0, 2.0])])
def test_sides_of_other_lengths_have_no_rank_correlation(x, y):
    with pytest.raises(ValueError, match="as many values"):
        rank_correlation(x, y)


def test_a_bootstrap_of_a_mean_has_the_width_of_the_normal_interval():
    values = np.random.default_rng(0).normal(size=400)
    made = bootstrap(lambda rows: values[rows].mean(), 400)
    half = 1.96 * values.std() / 20
    assert (made.low, made.high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.01)


def test_groups_are_drawn_apart():
    a, b = np.arange(3.0), np.arange(100.0, 105.0)
    sizes = set()

    def difference(first, second):
        sizes.add((len(first), len(second), first.max() < 3, second.max() < 5))
        return b[second].mean() - a[first].mean()

    made = bootstrap(difference, 3, 5)
    assert sizes == {(3, 5, True, True)}
    assert made.low < 101 < made.high


def test_it_is_the_same_every_time_and_none_where_most_draws_have_no_value():
    values = np.arange(10.0)
    assert bootstrap(lambda rows: values[rows].mean(), 10) == bootstrap(lambda rows: values[rows].mean(), 10)
    assert bootstrap(lambda rows: math.nan if 0 in rows else 1.0, 3, draws=200) is None


def test_least_squares_by_hand():
    x, group = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.0, 1.0])
    coefficients, explained = least_squares([x, group], 2 + 3 * x - group)
    assert coefficients == pytest.approx([2, 3, -1])
    assert explained == pytest.approx(1)
    _, explained = least_squares([x], [1.0, -1.0, -1.0, 1.0])
    assert explained == pytest.approx(0, abs=1e-12)
    assert math.isnan(least_squares([x], [2.0] * 4)[1])


def test_the_interval_of_the_mean_of_a_few_is_that_of_student():
    values = np.array([1.0, 2.0, 4.0, 9.0])
    made = student_interval(lambda rows: values[rows].mean(), 4, draws=20_000)
    expected = t.interval(0.95, 3, loc=4, scale=values.std(ddof=1) / 2)
    assert (made.low, made.high) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_intervals_of_few_units_cover_what_they_claim(count):
    """Of 300 differences of means; the binomial deviation is 1.3 points, and percentiles of draws cover 67 to 85 %."""
    covered = 0
    for seed in range(300):
        one, other = np.random.default_rng(seed).normal(size=(2, count))
        made = student_interval(lambda a, b, x=one, y=other: x[a].mean() - y[b].mean(), count, count, draws=200)
        covered += made.low <= 0 <= made.high
    assert covered >= 0.93 * 300


def test_one_unit_has_no_interval():
    assert student_interval(lambda a, b: 1.0, 1, 5) is None
    assert student_interval(lambda a: math.nan, 5) is None


def test_values_that_are_not_finite_have_no_rank():
    with pytest.raises(ValueError, match="expected finite values"):
        rank_correlation([1.0, math.nan], [1.0, 2.0])
