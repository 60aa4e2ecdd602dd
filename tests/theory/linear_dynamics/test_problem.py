"""Risks of the linear problem against sampling, and the closed form of gradient descent."""

import math

import pytest
import torch

from holdfast.rng import Streams
from holdfast.theory.linear_dynamics.problem import (
    Problem,
    adversarial_risk,
    dct_basis,
    expected_gd_limit_risk,
    gd_limit,
    gd_weights,
    robust_minimiser,
    spatial_coefficients,
    squared_residual,
    standard_risk,
    thesis_problem,
    thesis_start,
    vector,
    worst_perturbation,
)
from tests import chance

EPS = math.sqrt(2)
WEIGHTS = vector(4, 8, 1)


def normal(*shape, seed=0):
    return Streams(seed, "test", shape[0]).normal(torch.empty(*shape, dtype=torch.float64))


def test_adversarial_risk_has_its_independent_value():
    assert float(adversarial_risk(thesis_problem(), WEIGHTS, EPS)) == pytest.approx(82.446192, abs=5e-7)


def test_risks_without_the_square_of_the_deviation_are_others():
    """Published plotting code multiplies squared errors by the deviations 0.1 and 0.05."""
    problem = thesis_problem()
    slip = Problem(variances=problem.variances.sqrt(), target=problem.target)
    assert float(standard_risk(problem, WEIGHTS)) == pytest.approx(0.01)
    assert float(standard_risk(slip, WEIGHTS)) == pytest.approx(0.15)


def test_risks_are_means_over_inputs():
    problem = thesis_problem()
    x = normal(200_000, 3) * problem.variances.sqrt()
    residual = x @ (WEIGHTS - problem.target)
    attacked = residual + worst_perturbation(problem, WEIGHTS, x, EPS) @ WEIGHTS
    assert chance.has_mean(0.5 * residual.square(), float(standard_risk(problem, WEIGHTS)))
    assert chance.has_mean(0.5 * attacked.square(), float(adversarial_risk(problem, WEIGHTS, EPS)))


def test_no_perturbation_of_the_same_length_costs_more_than_the_worst():
    problem = thesis_problem()
    x = normal(300, 3, seed=1) * problem.variances.sqrt()
    worst = worst_perturbation(problem, WEIGHTS, x, EPS)
    other = normal(300, 3, seed=2)
    other *= EPS / other.norm(dim=1, keepdim=True)
    residual = x @ (WEIGHTS - problem.target)
    torch.testing.assert_close(worst.norm(dim=1), torch.full((300,), EPS, dtype=torch.float64))
    assert bool(((residual + worst @ WEIGHTS).abs() >= (residual + other @ WEIGHTS).abs()).all())


def test_risks_are_the_same_in_the_spatial_domain():
    problem, basis = thesis_problem(), dct_basis(3)
    covariance = basis.mT @ problem.variances.diag() @ basis
    off = basis.mT @ (WEIGHTS - problem.target)
    torch.testing.assert_close(off @ covariance @ off, squared_residual(problem, WEIGHTS))


def test_of_all_minimisers_the_one_without_irrelevant_weights_is_most_robust():
    problem = Problem(variances=vector(0.01, 0.0025, 0), target=vector(5, 10, 3))
    best = robust_minimiser(problem)
    assert best.tolist() == [5, 10, 0]
    others = best + torch.tensor([[0, 0, 1.0], [0, 0, -0.1]], dtype=torch.float64)
    assert standard_risk(problem, others).tolist() == [0, 0]
    torch.testing.assert_close(adversarial_risk(problem, others, EPS), others.square().sum(1))  # equation 4.10
    assert bool((adversarial_risk(problem, others, EPS) > adversarial_risk(problem, best, EPS)).all())


def test_gradient_descent_has_not_converged_after_200_001_steps():
    w = gd_weights(thesis_problem(), thesis_start(), 0.01, 200_001)
    assert float(w[1]) == pytest.approx(9.93256, abs=5e-6)
    assert float(w.square().sum()) == pytest.approx(123.656, abs=5e-4)
    assert gd_limit(thesis_problem(), thesis_start()).tolist() == [5, 10, 0.02]


def test_expected_risk_of_gradient_descent_grows_with_the_irrelevant_frequencies():
    problem = Problem(variances=vector(0.3, 0.1, *[0] * 18), target=vector(1, 2, *[0] * 18))
    risks = adversarial_risk(problem, gd_limit(problem, 0.3 * normal(20_000, 20, seed=3)), 0.2)
    expected = float(expected_gd_limit_risk(problem, 0.2, 0.3))
    assert expected == pytest.approx(0.02 * (5 + 18 * 0.09))
    assert chance.has_mean(risks, expected)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 64])
def test_the_basis_is_orthonormal_with_exact_zeros(size):
    basis = dct_basis(size)
    torch.testing.assert_close(basis @ basis.mT, torch.eye(size, dtype=torch.float64))
    assert float(basis.abs()[basis != 0].min()) > 1e-4
    if size == 3:
        assert float(basis[1, 1]) == 0


def test_each_irrelevant_frequency_makes_a_coordinate_redundant():
    """The sixth row of table 4.8: with two of three frequencies the third coordinate follows from the others."""
    coefficients = spatial_coefficients(dct_basis(3), torch.tensor([True, True, False]))
    third, half = math.sqrt(1 / 3), math.sqrt(1 / 2)
    expected = torch.tensor([[third, half, 0], [third, 0, 0], [third, -half, 0]], dtype=torch.float64)
    torch.testing.assert_close(coefficients, expected)
    assert int(torch.linalg.matrix_rank(coefficients)) == 2


def test_norms_of_orthogonal_parts_add_in_squares():
    """Printed after table 4.8: the norm of a sum is the sum of the norms."""
    basis = dct_basis(3)
    relevant, irrelevant = basis.mT @ vector(5, 10, 0), basis.mT @ vector(0, 0, 4)
    norm = float((relevant + irrelevant).norm())
    assert norm**2 == pytest.approx(float(relevant.norm()) ** 2 + float(irrelevant.norm()) ** 2)
    assert norm < float(relevant.norm() + irrelevant.norm()) - 3


@pytest.mark.parametrize(
    ("variances", "target", "message"),
    [
        (vector(1, 2).float(), vector(1, 2), "expected float64"),
        (vector(1, 2), vector(1, 2, 3), "as many variances"),
        (vector(1, -2), vector(1, 2), "none below 0"),
    ],
)
def test_impossible_problems_are_refused(variances, target, message):
    with pytest.raises(ValueError, match=message):
        Problem(variances=variances, target=target)
