import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.crossing import RESOLUTION, crossing

GRID = [0.0, *(10 ** (-0.5 + 4 * k / 6) for k in range(7)), math.inf]


def test_straight_lines_over_the_logarithm_cross_where_algebra_says():
    # with u = log10(alpha): g is 0.2 + 0.1 u and h is 0.5 - 0.05 u, equal at u = 2
    strengths = GRID[1:-1]
    logarithms = [math.log10(strength) for strength in strengths]
    found = crossing(strengths, [0.2 + 0.1 * u for u in logarithms], [0.5 - 0.05 * u for u in logarithms])
    assert found == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("strengths", "differences", "expected"),
    [
        ((0, 4), (3, -1), 3.0),  # linear in alpha after 0
        ((4, math.inf), (3, -1), 16.0),  # linear in 1 / alpha before infinity: 1/4 * (1 - 3/4)
        ((0, math.inf), (3, -1), 3.0),  # linear in the share: 3/4 is 3 to 1
        ((1, 100), (1, -1), 10.0),  # linear in the logarithm
        ((1, 2, 3), (1, 0, -1), 2.0),  # equal at a strength of the grid
        ((1, 2, 3, 4), (1, 0, 0, -1), 3.0),  # equal at two: up to the last
    ],
)
def test_between_two_strengths(strengths, differences, expected):
    assert crossing(strengths, [0.0] * len(strengths), differences) == pytest.approx(expected)


def test_curves_that_do_not_cross_say_who_is_ahead():
    assert crossing([0, 1, 10], [0.1, 0.2, 0.3], [0.5, 0.4, 0.35]) == math.inf
    assert crossing([0, 1, 10], [0.9, 0.9, 0.9], [0.5, 0.4, 0.35]) == 0.0
    assert crossing([2.0], [0.5], [0.5]) == math.inf


def test_of_several_crossings_the_one_that_answers_best():
    # a first dip of h by little, which the last crossing outweighs
    standard, robust = [0.0, 0.5, 0.2, 0.9], [0.5, 0.45, 0.5, 0.4]
    found = crossing([1, 2, 4, 8], standard, robust)
    assert 4 < found < 8
    # and a second lead of h that is too small to make up for the dip
    found = crossing([1, 2, 4, 8], [0.0, 0.9, 0.45, 0.9], [0.5, 0.45, 0.5, 0.4])
    assert 1 < found < 2


curves = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=len(GRID), max_size=len(GRID))


def curves_ahead(*ahead):
    """Curves over the grid with the given differences, equal at the remaining strengths."""
    return [(max(-d, 0.0), max(d, 0.0)) for d in (*ahead, *[0.0] * (len(GRID) - len(ahead)))]


@example(curves_ahead(-2e-12))
@example(curves_ahead(0.5, -4e-10, -4e-10))  # neighbouring differences that are equal and below the resolution
@example(curves_ahead(0.5, -1e-12, -0.3))
@example(curves_ahead(1e-10, -1e-10, -0.3))
@given(curves)
def test_no_other_threshold_answers_more(points):
    standard, robust = zip(*points, strict=True)
    threshold = crossing(GRID, standard, robust)

    def answered(threshold):
        return sum(h if alpha <= threshold else g for alpha, g, h in zip(GRID, standard, robust, strict=True))

    best = max(answered(threshold) for threshold in (-1.0, *GRID))
    # 0 says that g is best everywhere, the attack on g alone included
    reached = max(answered(threshold), sum(standard) if threshold == 0 else 0)
    assert threshold >= 0
    assert reached >= best - RESOLUTION - 1e-12  # beyond the resolution, rounding of the sums here


@pytest.mark.parametrize(
    ("strengths", "standard", "robust", "words"),
    [
        ([], [], [], "as many accuracies as strengths"),
        ([1, 2], [0.1], [0.1, 0.2], "got 2, 1 and 2"),
        ([2, 1], [0.1, 0.2], [0.1, 0.2], "that rise"),
        ([-1, 1], [0.1, 0.2], [0.1, 0.2], "from 0 on"),
        ([1, 2], [0.1, math.nan], [0.1, 0.2], "that are numbers"),
    ],
)
def test_bad_curves_get_one_line(strengths, standard, robust, words):
    with pytest.raises(ValueError, match=words):
        crossing(strengths, standard, robust)


def test_shares_that_are_equal_but_for_rounding_are_equal():
    assert crossing((0.0, 1.0, math.inf), (0.1, 0.4, 0.6), (0.4, 0.3, 0.7)) == math.inf
    assert crossing((0.0, 1.0, math.inf), (1, 4, 6), (4, 3, 7)) == math.inf
