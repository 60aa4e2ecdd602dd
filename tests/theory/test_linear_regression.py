"""Linear regression with irrelevant inputs: closed forms, sampling and descent."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.rng import Streams
from holdfast.theory.linear_regression import (
    Moments,
    attacked_gradient,
    attacked_loss,
    descend,
    expanded_loss,
    expected_attacked_loss,
    expected_squared_l1,
    perturbation,
    perturbed_gradient,
    perturbed_loss,
    population_gradient,
    population_limit,
    population_loss,
    regulariser,
    ridge_gradient,
    ridge_solution,
)
from tests import chance

DATA = Moments(mean=0.7, square=1.3)
SAMPLES = torch.tensor([0.7 - math.sqrt(0.81), 0.7 + math.sqrt(0.81)], dtype=torch.float64)  # has just these moments


def normal(*shape, seed=0):
    return Streams(seed, "weights", 1).normal(torch.empty(1, *shape, dtype=torch.float64))[0]


def losses(w, step):
    """The loss of each sample, by the definition."""
    x = torch.zeros(2, len(w), dtype=torch.float64)
    x[:, 0] = SAMPLES
    x = x + step
    return 0.5 * (x @ w - x[:, 0] + step[0]) ** 2


def test_losses_are_means_over_the_data():
    w, w0 = normal(6), normal(6, seed=1)
    step = perturbation(w0, 0.2)
    assert float(step[0]) == 0
    torch.testing.assert_close(step[1:], 0.2 * w0[1:].sign())
    torch.testing.assert_close(losses(w, torch.zeros(6)).mean(), population_loss(w, DATA))
    torch.testing.assert_close(losses(w, step).mean(), perturbed_loss(w, step, DATA))
    torch.testing.assert_close(losses(w, perturbation(w, 0.2)).mean(), attacked_loss(w, 0.2, DATA))


@pytest.mark.parametrize(
    ("loss", "gradient"),
    [
        (lambda w: population_loss(w, DATA), lambda w: population_gradient(w, DATA)),
        (lambda w: attacked_loss(w, 0.3, DATA), lambda w: attacked_gradient(w, 0.3, DATA)),
        (
            lambda w: perturbed_loss(w, perturbation(normal(5, seed=3), 0.3), DATA),
            lambda w: perturbed_gradient(w, perturbation(normal(5, seed=3), 0.3), DATA),
        ),
        (
            lambda w: population_loss(w, DATA) + 0.2 * w.square().sum(-1),
            lambda w: ridge_gradient(w, 0.4, DATA),
        ),
    ],
    ids=["population", "attacked", "fixed attack", "ridge"],
)
def test_gradients_are_those_of_the_losses(loss, gradient):
    w = normal(4, 5).requires_grad_()
    (expected,) = torch.autograd.grad(loss(w).sum(), w)
    torch.testing.assert_close(gradient(w.detach()), expected)


def test_the_printed_gradient_is_wrong():
    """With E[X_1] = 0 it would be zero everywhere, and descent would learn nothing; the true one has E[X_1^2]."""
    data = Moments(mean=0.0, square=1.3)
    w = torch.tensor([3.0, 1.0], dtype=torch.float64)
    assert float(population_gradient(w, data)[0]) == pytest.approx(2 * 1.3)
    printed = (w[0] - 1) * data.mean
    samples = torch.tensor([-1.0, 1.0], dtype=torch.float64) * math.sqrt(1.3)
    assert float(((w[0] - 1) * samples**2).mean()) == pytest.approx(float(population_gradient(w, data)[0]))
    assert float(printed) == 0


@given(st.integers(0, 10_000), st.floats(0, 1), st.floats(-2, 2))
@settings(max_examples=40, deadline=None)
def test_second_order_is_exact_and_first_order_lacks_the_square(seed, eps, mean):
    data = Moments(mean=mean, square=mean**2 + 0.5)
    w = normal(7, seed=seed)
    step = perturbation(w, eps)
    size = w[1:].abs().sum()
    torch.testing.assert_close(expanded_loss(w, step, data, 2), attacked_loss(w, eps, data))
    missing = attacked_loss(w, eps, data) - expanded_loss(w, step, data, 1)
    torch.testing.assert_close(missing, eps**2 / 2 * size**2, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(regulariser(w, eps, data), attacked_loss(w, eps, data) - population_loss(w, data))


def test_equation_3_2_holds_only_while_no_sign_has_changed():
    w0 = torch.tensor([0.3, 1.0, -2.0], dtype=torch.float64)
    step = perturbation(w0, 0.5)
    same, other = w0 * 0.4, torch.tensor([0.3, -1.0, -2.0], dtype=torch.float64)
    torch.testing.assert_close(perturbed_loss(same, step, DATA), attacked_loss(same, 0.5, DATA))
    assert float(perturbed_loss(other, step, DATA)) != pytest.approx(float(attacked_loss(other, 0.5, DATA)))


def test_expected_squared_sum_of_normal_weights():
    assert expected_squared_l1(1000, 1.0) == pytest.approx(636983.15, abs=5e-3)  # computed apart
    assert expected_squared_l1(1, 0.5) == pytest.approx(0.25)
    sums = 0.5 * normal(20_000, 12, seed=5).abs().sum(1)
    assert chance.has_mean(sums.square(), expected_squared_l1(12, 0.5))


def test_descent_fits_perfectly_and_can_be_attacked():
    start = normal(400, seed=2)
    found = descend(lambda w: population_gradient(w, DATA), start, rate=0.5, steps=100, eps=0.1, data=DATA)
    torch.testing.assert_close(found.weights[-1], population_limit(start))
    assert float(found.population[-1]) < 1e-12
    expected = 0.5 * 0.1**2 * float(start[1:].abs().sum()) ** 2  # equation 3.1
    assert float(found.attacked[-1]) == pytest.approx(expected)
    spread = 2 * math.sqrt(math.pi / 2 - 1) / math.sqrt(400)  # of the square of a sum of 400 absolute values
    assert expected == pytest.approx(expected_attacked_loss(400, 1.0, 0.1), rel=chance.deviations() * spread)


def test_expected_loss_at_the_limit_is_that_of_many_starts():
    starts = 0.3 * normal(5000, 20, seed=8)
    attacked = attacked_loss(population_limit(starts), 0.2, DATA)
    assert chance.has_mean(attacked, expected_attacked_loss(20, 0.3, 0.2))


def test_ridge_is_safe_and_biased():
    start = normal(30, seed=4)
    found = descend(lambda w: ridge_gradient(w, 0.3, DATA), start, rate=0.3, steps=400, eps=0.1, data=DATA)
    torch.testing.assert_close(found.weights[-1], ridge_solution(30, 0.3, DATA), rtol=0, atol=1e-9)
    assert float(found.weights[-1][0]) == pytest.approx(1.3 / 1.6)
    assert float(found.population[-1]) > 0.01


def test_the_exact_regulariser_is_safe_without_bias():
    """Subgradient steps rattle around the kinks, so that weights get as small as a step and not smaller."""
    start, eps = normal(30, seed=4), 0.1
    found = descend(lambda w: attacked_gradient(w, eps, DATA), start, rate=0.5, steps=4000, eps=eps, data=DATA)
    assert float(found.attacked[-1]) < 1e-3 * float(found.attacked[0])
    assert abs(float(found.weights[-1][0]) - 1) < 0.05
    assert float(found.weights[-1][1:].abs().max()) < 0.05


def test_training_against_one_fixed_attack_leaves_the_model_open_to_the_next():
    """The attack on the start loses its grip when the signs change, and the weights stay where they are."""
    start, eps = normal(30, seed=4), 0.1
    step = perturbation(start, eps)
    found = descend(lambda w: perturbed_gradient(w, step, DATA), start, rate=0.3, steps=4000, eps=eps, data=DATA)
    assert float(perturbed_loss(found.weights[-1], step, DATA)) < 1e-8
    assert float(found.attacked[-1]) > 0.1


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="square must be at least mean"):
        Moments(mean=2.0, square=3.0)
    with pytest.raises(ValueError, match="order must be 1 or 2, got 3"):
        expanded_loss(normal(3), normal(3), DATA, 3)
    with pytest.raises(ValueError, match="positive rate and one or more steps"):
        descend(lambda w: w, normal(3), rate=0.0, steps=1, eps=0.1, data=DATA)
