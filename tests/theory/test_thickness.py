"""The corrected theorem on boundary thickness, and the printed one's counter-examples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.theory.thickness import gap_of_optimal, thickness_of_optimal


def uniform(r):
    return np.ones_like(r)


def exponential(r, c=10, tau=1.0, xi=0.4):
    return 1 / c + (1 - 1 / c) * (xi / (1 - 1 / c)) ** (r / tau)


def step(r):
    return np.where(r < 0.6, 1.0, 0.2)


LAWS = {"uniform": uniform, "half normal": lambda r: np.exp(-2 * r**2), "exponential": lambda r: np.exp(-3 * r)}
laws = st.sampled_from(sorted(LAWS))


@pytest.mark.parametrize(
    ("n", "hard", "smoothed"), [(2, 0.37500, 0.38496), (3, 0.22571, 0.28824), (10, 0.05384, 0.15274)]
)
def test_independent_values(n, hard, smoothed):
    assert thickness_of_optimal(uniform, dimensions=n) == pytest.approx(hard, abs=1e-5)
    smoothed_thickness = thickness_of_optimal(uniform, dimensions=n, smoothing=exponential, classes=10)
    assert smoothed_thickness == pytest.approx(smoothed, abs=1e-5)


def test_the_printed_theorem_fails_for_one_dimension_and_for_steps():
    band = {"alpha": -0.2, "beta": 0.2}
    assert thickness_of_optimal(uniform, dimensions=1, **band) == 1.0
    smoothed_thickness = thickness_of_optimal(uniform, dimensions=1, smoothing=exponential, classes=10, **band)
    assert smoothed_thickness == pytest.approx(0.729211, abs=1e-5)
    band = {"alpha": -0.3, "beta": 0.3}
    assert thickness_of_optimal(uniform, dimensions=2, **band) == pytest.approx(0.3, abs=1e-5)
    smoothed_thickness = thickness_of_optimal(uniform, dimensions=2, smoothing=step, classes=10, **band)
    assert smoothed_thickness == pytest.approx(0.2, abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    law=laws, n=st.integers(2, 40), classes=st.integers(2, 20), distance=st.floats(0.2, 3),
    weights=st.lists(st.floats(0.01, 1), min_size=1, max_size=3),
    rates=st.lists(st.floats(0.1, 8), min_size=3, max_size=3),
    alpha=st.floats(-0.9, 0), beta=st.floats(0.05, 0.9),
)  # fmt: skip
def test_convex_smoothing_never_makes_the_boundary_thinner(law, n, classes, distance, weights, rates, alpha, beta):
    def smoothing(r):
        mixed = sum(weight * np.exp(-rate * r) for weight, rate in zip(weights, rates, strict=False)) / sum(weights)
        return 1 / classes + (1 - 1 / classes) * mixed

    options = {"dimensions": n, "distance": distance, "alpha": alpha, "beta": beta, "points": 1 << 12}
    hard = thickness_of_optimal(LAWS[law], **options)
    assert thickness_of_optimal(LAWS[law], smoothing=smoothing, classes=classes, **options) >= hard - distance / 2**11


@settings(max_examples=40, deadline=None)
@given(law=laws, n=st.integers(1, 40), smooth=st.booleans(), distance=st.floats(0.2, 1.5))
def test_gaps_are_antisymmetric_and_fall(law, n, smooth, distance):
    t = np.linspace(0.01, 0.99, 99)
    smoothing = exponential if smooth else None
    gap = gap_of_optimal(t, LAWS[law], dimensions=n, distance=distance, smoothing=smoothing, classes=10)
    np.testing.assert_allclose(gap, -gap[::-1], atol=1e-12)
    assert (np.diff(gap) <= 1e-12).all()


def test_the_high_dimensions_of_images_do_not_overflow():
    t = np.array([0.499, 0.501])
    gap = gap_of_optimal(t, uniform, dimensions=3072)
    ratio = 4.625e-6  # (0.499 / 0.501)^3071
    np.testing.assert_allclose((1 - gap[0]) / (1 + gap[0]), ratio, rtol=1e-3)


def test_a_law_that_does_not_reach_is_refused():
    with pytest.raises(ValueError, match="reaches every point"):
        gap_of_optimal(np.array([0.5]), lambda r: (r < 0.3).astype(float), dimensions=2)
    with pytest.raises(ValueError, match="at least 1 dimension and 2 classes and a positive distance, got 0, 2 and 1"):
        gap_of_optimal(np.array([0.5]), uniform, dimensions=0)
