"""Theorems 6.2 and 6.3: numbers, the statement that the first says nothing, and random distributions for the second."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from holdfast.questions.classes.compactness import (
    intermediate_divergence_bound,
    mapping_error_bound,
    margin_loss,
    smallest_share,
)


def test_the_margin_loss_is_a_ramp():
    h = torch.tensor([-1.0, 0.0, 0.5, 2.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(margin_loss(h, 2.0), torch.tensor([1.0, 1.0, 0.75, 0.0, 0.0], dtype=torch.float64))


def test_the_bound_has_its_three_parts():
    far = torch.tensor([0.5, 1.0, 1.5, 3.0])
    found = mapping_error_bound(far, r=2.0, rho=3.0, centroid_norm=1.0, feature_norm=2.0, delta=0.1)
    # r^2 - d^2 = 3.75, 3, 1.75, -5 -> 0, 0, 1 - 1.75/3, 1
    assert found.empirical == pytest.approx((1.25 / 3 + 1) / 4)
    assert found.complexity == pytest.approx(2 / 3 * (4 + 4 + 0.5))
    assert found.confidence == pytest.approx(3 * math.sqrt(math.log(20) / 8))
    assert found.value == pytest.approx(found.empirical + found.complexity + found.confidence)
    assert found.least == pytest.approx(2 * 8 / 9)
    assert found.vacuous
    assert found.hopeless


def test_points_within_delta_v_cost_nothing():
    found = mapping_error_bound(torch.rand(9), r=2.0, rho=3.0, centroid_norm=0.0, feature_norm=0.1)
    assert found.empirical == 0.0


def test_the_paper_says_that_it_shrinks_with_n_and_one_part_does_not():
    def complexity(n):
        return mapping_error_bound(torch.zeros(n), r=2.0, rho=3.9, centroid_norm=1.0, feature_norm=1.0).complexity

    assert complexity(10_000) < complexity(10)
    assert complexity(1_000_000) > 2 / 3.9 * (1 + 2)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.01, 100), st.floats(0, 100), st.floats(0.01, 1), st.integers(1, 1000))
def test_it_is_vacuous_unless_the_centroids_are_far_outside_the_features(longest, centre, share, n):
    """For any radius up to the largest distance that can occur."""
    r = share * (longest + centre)
    found = mapping_error_bound(torch.zeros(n), r=r, rho=0.999 * r**2, centroid_norm=centre, feature_norm=longest)
    assert found.complexity >= found.least
    assert found.hopeless == (centre <= (1 + math.sqrt(2)) * longest) or math.isclose(found.least, 1)
    if found.hopeless:
        assert found.vacuous


@pytest.mark.parametrize(("tau", "expected"), [(0.75, 0.125), (0.9, 0.32), (1.0, 0.5), (0.5, 0.0), (0.2, 0.0)])
def test_divergence_bounds_have_their_reference_values(tau, expected):
    assert intermediate_divergence_bound(tau) == pytest.approx(expected)  # computed apart
    assert intermediate_divergence_bound(tau) < math.log(2)


def kl(p, q):
    there = p > 0
    return float(np.sum(p[there] * np.log(p[there] / q[there])))


def divergence(p, q):
    return (kl(p, (p + q) / 2) + kl(q, (p + q) / 2)) / 2


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 100_000))
def test_earlier_layers_are_at_least_as_far_apart_as_the_bound(seed):
    """Two classes on 12 points of an earlier layer; a map to 6 points of the last, two of which are the balls."""
    random = np.random.default_rng(seed)
    early = random.dirichlet(np.full(12, 0.3), size=2)
    where = random.integers(6, size=12)
    last = np.stack([np.bincount(where, weights=one, minlength=6) for one in early])
    tau = float(min(last[0, 0], last[1, 1]))
    assert divergence(*early) >= divergence(*last) - 1e-12
    assert divergence(*last) >= intermediate_divergence_bound(tau) - 1e-12


def test_pinsker_as_the_proof_prints_it_is_wrong():
    p, q = np.array([0.75, 0.25]), np.array([0.25, 0.75])
    middle, variation = (p + q) / 2, 0.25
    assert kl(p, middle) / 2 < variation  # printed: at least the total variation itself
    assert kl(p, middle) / 2 >= variation**2


def test_the_share_of_the_worst_class_and_its_lower_bound():
    measured, low = smallest_share(torch.tensor([90, 99]), torch.tensor([100, 100]))
    assert measured == 0.9
    # One-sided at 0.05 over two classes is the lower end of a two-sided interval at 0.05.
    assert low == pytest.approx(binomtest(90, 100).proportion_ci(0.95, "exact").low)
    assert smallest_share(torch.tensor([0]), torch.tensor([3])) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("changed", "says"),
    [({"rho": 4.0}, "0 < rho < r"), ({"delta": 0.0}, "delta between 0 and 1"), ({"rho": 0.0}, "0 < rho < r")],
)
def test_impossible_questions_are_refused(changed, says):
    asked = {"r": 2.0, "rho": 1.0, "centroid_norm": 1.0, "feature_norm": 1.0, **changed}
    with pytest.raises(ValueError, match=says):
        mapping_error_bound(torch.zeros(3), **asked)


def test_a_share_outside_the_unit_interval_is_refused():
    with pytest.raises(ValueError, match=r"tau must lie in \[0, 1\], got 1.5"):
        intermediate_divergence_bound(1.5)
