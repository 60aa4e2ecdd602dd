"""Bounds of the classes' probabilities from counts, and what further copies would probably say."""

import numpy as np
import pytest
from scipy import stats

from holdfast.certify.bounds import BOUNDS, Tally, likely_shares, outlook, unanimous
from holdfast.statistics import lower_bounds


def counted(*rows):
    """Tallies from rows of (top, other, trials)."""
    return Tally(*np.array(rows, dtype=np.float64).T)


def columns(tally):
    return [part.tolist() for part in (tally.top, tally.other, tally.trials)]


@pytest.mark.parametrize(("top", "other", "trials"), [(60, 30, 100), (40, 5, 100), (7, 2, 11)])
def test_bounds_are_those_of_clopper_and_pearson_each_at_its_alpha(top, other, trials):
    alpha = 0.01

    def lower(share):
        return stats.beta.ppf(share, top, trials - top + 1)

    first, rest = BOUNDS["one_vs_rest"](counted((top, other, trials)), lower_bounds, alpha)
    assert first == pytest.approx(lower(alpha), rel=1e-9)
    assert rest == pytest.approx(1 - lower(alpha), rel=1e-9)
    first, second = BOUNDS["two_class"](counted((top, other, trials)), lower_bounds, alpha)
    assert first == pytest.approx(lower(alpha / 2), rel=1e-9)
    assert second == pytest.approx(stats.beta.ppf(1 - alpha / 2, other + 1, trials - other), rel=1e-9)


def test_the_runner_up_is_no_likelier_than_what_the_first_leaves():
    first, second = BOUNDS["two_class"](counted((60, 40, 100)), lower_bounds, 0.01)
    assert second == 1 - first


def test_where_all_agree_no_copy_is_left_for_another_class():
    assert columns(unanimous(7)) == [[7], [0], [7]]


def test_equal_tallies_are_looked_at_once():
    tally = counted((5, 1, 9), (3, 2, 9), (5, 1, 9))
    different, which = tally.distinct()
    assert len(different) == 2
    assert which.shape == (3,)
    assert columns(different[which]) == columns(tally)


@pytest.mark.parametrize(
    ("seen", "other"), [((80, 15, 100), 75), ((80, 20, 100), 100), ((99, 1, 100), 100), ((100, 0, 100), 0)]
)
def test_the_runner_up_keeps_its_part_of_the_rest(seen, other):
    assert columns(outlook(counted(seen), np.array([900.0]), 1000.0)) == [[900], [other], [1000]]


def test_likely_shares_are_quantiles_of_the_posterior():
    found = likely_shares(np.array([80.0]), np.array([100.0]), np.array([[0.05], [0.99]]))
    expected = stats.beta(80.5, 20.1).ppf([[0.05], [0.99]])
    np.testing.assert_allclose(found, expected, rtol=1e-9)
