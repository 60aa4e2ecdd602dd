"""Predicted against observed shift of the irrelevant weight, and what it does to the adversarial risk."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rng import Streams
from holdfast.theory.linear_dynamics.descent import descend
from holdfast.theory.linear_dynamics.optimisers import SignGD
from holdfast.theory.linear_dynamics.predictions import (
    DRIFT,
    SHIFT_ERROR,
    predicted_shift,
    printed_ratio,
    risk_ratio,
    shift_errors,
    signgd_is_less_robust,
)
from holdfast.theory.linear_dynamics.problem import (
    Problem,
    adversarial_risk,
    dct_basis,
    gd_limit,
    thesis_problem,
    thesis_start,
    vector,
)
from holdfast.theory.linear_dynamics.signs import arrival, observed_shift
from tests import chance

RATE = 0.02


def random_problems(slope, count=400):
    """Targets 3 N(0, I) and starts N(0, I)."""
    draws = Streams(0, "problems", count).normal(torch.empty(count, 2, 3, dtype=torch.float64))
    target = 3 * draws[:, 0]
    target[:, 2] = 0
    return Problem(variances=vector(0.01, 0.01 * slope, 0), target=target), draws[:, 1]


def train(problem, start, steps=500, rate=RATE):
    return descend(problem, SignGD(rate=rate), start, steps=steps, basis=dct_basis(3))


def after_arrival(problem, path, values):
    """Values at and after the arrival, and 0 before."""
    step = torch.arange(len(path))[:, None]
    return torch.where(step >= arrival(problem, path, RATE), values, 0.0)


@pytest.mark.parametrize("slope", [0.05, 0.25, 0.4, 1.0, 2.0])
def test_the_irrelevant_weight_stays_near_its_prediction(slope):
    problem, start = random_problems(slope)
    path = train(problem, start)
    errors = after_arrival(problem, path, shift_errors(problem, path)).abs()
    assert float(errors.max()) <= SHIFT_ERROR * RATE
    assert float(errors.max()) > 0.2 * SHIFT_ERROR * RATE  # it is not loose by an order


@given(st.floats(-30, 30), st.floats(-30, 30), st.floats(-3, 3), st.floats(0.05, 2.0))
def test_its_prediction_holds_for_any_start(e0, e1, irrelevant, slope):
    problem = Problem(variances=vector(1.0, slope, 0), target=vector(0, 0, 0))
    start = vector(e0 or 1.0, e1, irrelevant)
    path = train(problem, start, steps=130, rate=0.5)
    errors = shift_errors(problem, path)[int(arrival(problem, path, 0.5)) :]
    assert float(errors.abs().max()) <= SHIFT_ERROR * 0.5 + 1e-9


def test_it_is_equation_4_28_with_the_larger_constant():
    """For slopes below a third, with its two cases."""
    problem, start = random_problems(0.25)
    e0, e1 = (start - problem.target)[:, :2].abs().unbind(1)
    large = math.sqrt(6) / 3
    a, b = e0 / math.sqrt(3), 0.25 * e1 / math.sqrt(2)
    printed = torch.where(a < b, math.sqrt(3) * large * e0, 1.5 * math.sqrt(2) * 0.25 * large * e1)
    shift = predicted_shift(problem, start)
    torch.testing.assert_close(shift.abs(), printed)
    assert torch.equal(shift.sign(), (start - problem.target)[:, 0].sign())


def test_the_shift_of_the_thesis_is_4_330_predicted_and_4_319_seen():
    problem, start = thesis_problem(), thesis_start()
    assert float(predicted_shift(problem, vector(0, 0, 0))) == pytest.approx(-4.330, abs=5e-4)
    path = train(problem, start, steps=1500, rate=0.01)
    assert float(path[-1, 2] - start[2]) == pytest.approx(-4.319, abs=5e-4)


@pytest.mark.parametrize("slope", [0.25, 1.0])
def test_after_the_arrival_it_drifts_farther_than_equation_4_22_has(slope):
    """The update at T is missing there: three steps go in one direction, not two."""
    problem, start = random_problems(slope)
    path = train(problem, start)
    arrived = start[:, 2] + observed_shift(problem, path, RATE)
    drift = after_arrival(problem, path, path[..., 2] - arrived).abs().amax(0) / RATE
    assert float(drift.max()) == pytest.approx(DRIFT)
    assert float((drift > 2 * math.sqrt(6) / 3 + 1e-6).double().mean()) > 0.2


def test_the_ratio_is_that_of_the_risks_at_the_two_limits():
    problem, start = random_problems(0.25, count=20)
    end = gd_limit(problem, start)
    shift = predicted_shift(problem, start)
    moved = end.clone()
    moved[:, 2] += shift
    for eps in (0.1, 2.0):
        expected = adversarial_risk(problem, moved, eps) / adversarial_risk(problem, end, eps)
        torch.testing.assert_close(risk_ratio(problem, start, shift), expected)


@pytest.mark.parametrize(("irrelevant", "ratio"), [(4.3, 0.8686), (2.0, 1.0079), (-4.3, 1.3864), (0.02, 1.144967)])
def test_sign_descent_can_be_the_more_robust_one(irrelevant, ratio):
    """Printed after equation 4.19: the ratio is always greater than 1."""
    start = vector(0.01, -0.01, irrelevant)
    ends = train(thesis_problem(), start, steps=1500, rate=0.01)[-2:]
    observed = ends.square().sum(1).min() / gd_limit(thesis_problem(), start).square().sum()
    assert float(observed) == pytest.approx(ratio, abs=5e-5)
    shift = predicted_shift(thesis_problem(), start)
    assert float(risk_ratio(thesis_problem(), start, shift)) == pytest.approx(ratio, abs=0.01)
    assert bool(signgd_is_less_robust(start, shift)) == (ratio > 1)


@pytest.mark.parametrize(("slope", "share"), [(0.25, 0.334), (1 / 9, 0.410)])
def test_a_third_of_random_problems_have_a_ratio_below_1(slope, share):
    """At the slopes of figures 4.7 and 4.9, by 200,000 draws of another generator."""
    problem, start = random_problems(slope, count=20_000)
    less_robust = signgd_is_less_robust(start, predicted_shift(problem, start))
    assert float((~less_robust).double().mean()) == pytest.approx(share, abs=chance.share_error(20_000, share))


def test_the_prediction_is_on_the_right_side_of_1():
    problem, start = random_problems(0.25)
    path = train(problem, start)
    shift = predicted_shift(problem, start)
    less_robust = signgd_is_less_robust(start, shift)
    assert torch.equal(less_robust, risk_ratio(problem, start, shift) > 1)
    clear = ((start[:, 2] + shift).abs() - start[:, 2].abs()).abs() > SHIFT_ERROR * RATE
    assert float(clear.double().mean()) > 0.7
    observed = risk_ratio(problem, start, path[-1, :, 2] - start[:, 2])
    assert torch.equal((observed > 1)[clear], less_robust[clear])


def test_the_printed_interval_of_the_ratio_and_its_upper_end():
    """Printed [1.04, 1.15]; the ratio is at its upper end, as C is sqrt(6)/3 almost surely."""
    problem, zero = thesis_problem(), vector(0, 0, 0)
    low, high = printed_ratio(problem, zero)
    assert (float(low), float(high)) == (pytest.approx(1.0375), pytest.approx(1.15))
    assert float(risk_ratio(problem, zero, predicted_shift(problem, zero))) == pytest.approx(float(high))
    steep = Problem(variances=vector(0.01, 0.0033, 0), target=vector(1, 10, 0))  # |A| < |B|
    low, high = printed_ratio(steep, zero)
    assert (float(low), float(high)) == (pytest.approx(1 + 0.5 / 101), pytest.approx(1 + 2 / 101))
    assert float(risk_ratio(steep, zero, predicted_shift(steep, zero))) == pytest.approx(float(high))


def test_spectra_that_rise_steeply_are_refused():
    problem = Problem(variances=vector(0.01, 0.03, 0), target=vector(1, 1, 0))
    with pytest.raises(ValueError, match="at most twice the first, got 3 times"):
        predicted_shift(problem, vector(0, 0, 0))
