import numpy as np
import pytest
from scipy import stats

from holdfast.questions.curvature.summary import accuracy_of_lowest, box, curvature_by_right_answers, pearson
from holdfast.statistics import wilson

CURVATURE = np.array([4.0, 1.0, 3.0, 2.0, 5.0, 9.0, 8.0, 7.0, 6.0, 10.0])
RIGHT = np.array([9.0, 10.0, 10.0, 10.0, 8.0, 0.0, 2.0, 4.0, 6.0, 1.0])


def test_the_lowest_share_is_kept_and_judged_under_noise():
    found = accuracy_of_lowest(CURVATURE, RIGHT, 10)
    assert [one.examples for one in found] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert [one.accuracy for one in found[:5]] == pytest.approx([1, 1, 1, 0.975, 0.94])
    assert found[-1].accuracy == pytest.approx(RIGHT.mean() / 10)  # all of them, the largest too
    assert found[4].interval == wilson(5, 5)
    assert found[-1].interval == wilson(6, 10)


def test_rounding_does_not_keep_one_too_many_and_none_is_not_kept():
    found = accuracy_of_lowest(np.arange(10.0), np.ones(10), 1, shares=(0.01, 0.3, 0.35, 0.7))
    assert [one.examples for one in found] == [1, 3, 4, 7]
    (exact,) = accuracy_of_lowest(np.arange(100.0), np.ones(100), 1, shares=(0.07,))
    assert exact.examples == 7


def test_groups_are_the_numbers_of_right_answers_that_occur():
    found = curvature_by_right_answers(CURVATURE, RIGHT)
    assert [(one.right, one.examples) for one in found] == [
        (0, 1),
        (1, 1),
        (2, 1),
        (4, 1),
        (6, 1),
        (8, 1),
        (9, 1),
        (10, 3),
    ]
    assert found[-1].curvature.mean == 2
    assert found[-1].curvature.deviation == 1


def test_correlation_and_interval_are_those_of_scipy():
    found = pearson(RIGHT, CURVATURE)
    expected = stats.pearsonr(RIGHT, CURVATURE)
    interval = expected.confidence_interval(0.95)
    assert found.value == pytest.approx(expected.statistic)
    assert found.value < -0.9
    assert (found.interval.low, found.interval.high) == pytest.approx((interval.low, interval.high))
    assert found.points == 10


def test_correlation_of_group_means_is_not_that_of_examples():
    right = np.repeat([0.0, 5.0, 10.0], 50)
    curvature = 10 - right + 20 * np.random.default_rng(0).standard_normal(150)
    groups = curvature_by_right_answers(curvature, right)
    means = pearson([one.right for one in groups], [one.curvature.mean for one in groups])
    assert abs(means.value) > 0.9
    assert abs(pearson(right, curvature).value) < 0.5


@pytest.mark.parametrize(
    ("first", "second", "value"), [([1, 2, 3], [2, 4, 6], 1), ([1, 1, 1, 1], [1, 2, 3, 4], None), ([1], [2], None)]
)
def test_correlation_without_an_interval(first, second, value):
    found = pearson(first, second)
    assert found.value == (None if value is None else pytest.approx(value))
    assert found.interval is None


def test_a_box_has_the_quantiles_of_the_lowest_share():
    values = np.arange(1000.0)[::-1]
    quantiles, examples = box(values)
    assert examples == 900
    assert quantiles == pytest.approx(np.quantile(np.arange(900.0), [0.05, 0.25, 0.5, 0.75, 0.95]))
    assert box(values, share=1.0)[0][2] == 499.5
