import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from holdfast.certify.noise import Gaussian, Laplace, Uniform
from tests import chance

KINDS = {
    "gaussian": (Gaussian(0.5), stats.norm(scale=0.5)),
    "laplace": (Laplace(0.3), stats.laplace(scale=0.3)),
    "uniform": (Uniform(0.7), stats.uniform(-0.7, 1.4)),
}
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_quantiles_are_those_of_the_distribution(kind):
    noise, distribution = KINDS[kind]
    shares = np.array([1e-12, 0.001, 0.3, 0.5, 0.7, 0.9986509924, 1 - 1e-12])
    np.testing.assert_allclose(noise.quantile(shares), distribution.ppf(shares), rtol=1e-9, atol=1e-15)


@kinds
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_draws_have_the_distribution(kind, dtype):
    noise, distribution = KINDS[kind]
    values = torch.empty(200, 100, dtype=dtype)
    noise.fill(values, torch.Generator().manual_seed(0))
    assert values.isfinite().all()
    assert chance.follows(noise.scale * values.double().flatten().numpy(), distribution.cdf)
    neighbours = np.corrcoef(values[:, :-1].flatten(), values[:, 1:].flatten())[0, 1]
    assert abs(float(neighbours)) < chance.deviations() / 19_800**0.5


@kinds
def test_the_noise_of_many_pixels_is_finite(kind):
    # Uniform values of 24 bits are 0 now and then, and a Laplace value made of their logarithm would not be finite.
    values = torch.empty(2**23)
    KINDS[kind][0].fill(values, torch.Generator().manual_seed(1))
    assert values.isfinite().all()


edges = st.lists(st.floats(-2, 2), min_size=4, max_size=5, unique=True).map(sorted)


@kinds
@settings(max_examples=40, deadline=None)
@given(edges, edges, st.lists(st.booleans(), min_size=36, max_size=36), st.floats(-0.6, 0.6), st.floats(-0.6, 0.6))
def test_no_set_loses_more_to_a_shift_than_the_formula_says(kind, first, second, inside, right, up):
    # Sets made of the cells of a grid over the plane (outer cells are infinite): all probabilities are exact.
    noise, distribution = KINDS[kind]

    def mass(cuts, shift):
        return np.diff(distribution.cdf(np.array([-np.inf, *cuts, np.inf]) - shift))

    cells = np.array(inside[: (len(first) + 1) * (len(second) + 1)]).reshape(len(first) + 1, len(second) + 1)
    here = mass(first, 0) @ cells @ mass(second, 0)
    there = mass(first, right) @ cells @ mass(second, up)
    with np.errstate(divide="ignore"):
        kept = distribution.cdf(noise.quantile(np.array(np.clip(here, 0, 1))) - abs(right) - abs(up))
    assert there >= kept - 1e-9


@kinds
@given(st.floats(0.01, 0.99), st.floats(0, 0.5))
def test_a_half_space_along_a_pixel_loses_exactly_that(kind, share, shift):
    noise, distribution = KINDS[kind]
    edge = noise.quantile(np.array(share))
    assert distribution.cdf(edge) == pytest.approx(share)
    assert distribution.cdf(edge - shift) == pytest.approx(distribution.cdf(distribution.ppf(share) - shift))
