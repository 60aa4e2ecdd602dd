"""Draws for weights of mixtures."""

import pytest
import torch
from scipy import stats

from holdfast.augment.draws import beta, dirichlet, gamma
from holdfast.rng import Streams
from tests import chance

COUNT = 4000


@pytest.mark.parametrize("shape", [0.5, 1, 4.0])
def test_gamma_variables_follow_their_law(shape):
    drawn = gamma(Streams(1, "gamma", COUNT), shape, 2)
    assert drawn.shape == (COUNT, 2)
    assert chance.follows(drawn.flatten().numpy(), stats.gamma(shape).cdf)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (0.5, 0.5), (3.0, 1.0)])
def test_beta_variables_follow_their_law(a, b):
    assert chance.follows(beta(Streams(2, "beta", COUNT), a, b).numpy(), stats.beta(a, b).cdf)


@pytest.mark.parametrize("alpha", [0.01, 1, 2.5])
def test_weights_sum_to_one_and_each_is_a_beta_variable(alpha):
    weights = dirichlet(Streams(3, "dirichlet", COUNT), alpha, 3)
    torch.testing.assert_close(weights.sum(1), torch.ones(COUNT, dtype=torch.float64))
    assert bool((weights >= 0).all())
    if alpha >= 1:
        for column in weights.T:
            assert chance.follows(column.numpy(), stats.beta(alpha, 2 * alpha).cdf)
