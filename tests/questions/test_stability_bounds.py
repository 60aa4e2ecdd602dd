import math

import numpy as np
import polars as pl
import pytest
import torch

from holdfast.questions.curvature.measurement import input_curvature
from holdfast.questions.stability.bounds import (
    loss_change,
    lower_bound,
    quadratic_share,
    stability_curve,
    stable_share,
    trace_square,
    upper_bound,
)
from holdfast.questions.stability.measurement import stability
from holdfast.rng import Streams
from tests import chance
from tests.questions.test_curvature import hessians
from tests.zoo import images, labels, linear

DELTAS = [0.001, 0.05, 0.2, 1.0]


def longest(model):
    return float(model.weight.detach().norm(dim=1).max())


def measured(model, x, y, sigma, *, draws=400, probes=100):
    """What `holdfast analyse stability` keeps."""
    bend = input_curvature(model, x, y, draws=probes, step=None)
    moved = stability(model, x, y, sigma=sigma, deltas=DELTAS, draws=draws)
    columns = {**vars(bend), **vars(moved)}
    return pl.DataFrame({name: values.tolist() for name, values in columns.items()})


def test_bounds_are_the_formulas():
    eta = np.array([0.0, 0.25, 1.0])
    found = upper_bound(eta, delta=0.5, sigma=0.1, longest_row=2.0, largest_logit=3.0)
    assert found.tolist() == pytest.approx([8e4 * 36, 8e4 * (0.25 + 0.75 * 36), 8e4])
    below = lower_bound(eta, np.array([0.5, 0.5, 0.5]), np.array([1.0, 1.0, 1.0]), sigma=0.1)
    assert below.tolist() == pytest.approx([4e4 * 0.24, 4e4 * (0.75 * 0.25 - 0.01), -4e4 * 0.01])


def test_equation_22_is_the_mean_squared_change_of_a_quadratic():
    count, sigma = 400_000, 0.3
    half = Streams(0, "matrix", 1).normal(torch.empty(1, 4, 4, dtype=torch.float64))[0]
    hessian, gradient = half + half.T, torch.tensor([1.0, -2.0, 0.5, 0.0], dtype=torch.float64)
    noise = sigma * Streams(1, "noise", count).normal(torch.empty(count, 4, dtype=torch.float64))
    change = (noise @ gradient + ((noise @ hessian) * noise).sum(1) / 2).square()
    exact = loss_change(
        np.array([float(gradient.norm())]), np.array([float(hessian.square().sum())]),
        np.array([float(hessian.trace()) ** 2]), sigma=sigma,
    )  # fmt: skip
    assert chance.has_mean(change, exact[0])
    # and with it the two inequalities of the appendix that start from it
    assert hessian.square().sum() <= 2 / sigma**4 * change.mean()
    lower = 4 / sigma**4 * (change.mean() - sigma**2 * gradient.square().sum())
    magnitudes = torch.linalg.eigvalsh(hessian).abs()
    assert 2 * magnitudes.square().sum() + magnitudes.sum() ** 2 >= lower - 1e-2 * lower.abs()


@pytest.mark.parametrize("seed", range(2))
def test_both_bounds_hold_for_a_linear_softmax_and_little_noise(seed):
    # The loss is nearly quadratic at this noise; 1 % of slack for what is not, as the theorem is exact for quadratics.
    model, x, y = linear(4, (6,), seed=seed), images(30, (6,), seed=seed), labels(30, 4, seed=seed)
    sigma = 0.01
    rows = measured(model, x, y, sigma)
    assert quadratic_share(rows, sigma=sigma) == pytest.approx(1, abs=0.15)
    exact = torch.linalg.eigvalsh(hessians(model, x, y)).numpy()
    squares, magnitudes = (exact**2).sum(1), np.abs(exact).sum(1)
    largest = float(rows["largest_logit"].max())
    for place, delta in enumerate(DELTAS):
        inside = rows["inside"].list.get(place).to_numpy().astype(float)
        eta = inside / 400
        upper = upper_bound(eta, delta=delta, sigma=sigma, longest_row=longest(model), largest_logit=largest)
        assert (squares <= 1.01 * upper).all()
        gap = rows["loss_outside"].list.get(place).to_numpy() - rows["loss"].to_numpy()
        below = lower_bound(eta, np.nan_to_num(gap), rows["gradient_norm"].to_numpy(), sigma=sigma)
        assert (2 * squares + magnitudes**2 >= below - 0.01 * np.abs(below)).all()


def test_the_lower_bound_says_something_where_the_gradient_is_zero():
    # Labels as uncertain as the network: no gradient, the same Hessian. At delta 0 every draw is outside and
    # l_out - l = sigma^2 tr H / 2, so that the bound is (tr H)^2.
    model, x = linear(4, (6,)), images(5, (6,))
    y = model(x).softmax(1).detach()
    moved = stability(model, x, y, sigma=0.01, deltas=[0.0], draws=20_000)
    here = -(y * model(x).log_softmax(1)).sum(1).detach()
    gap = (moved.loss_outside[:, 0] - here).numpy()
    found = lower_bound(np.zeros(5), gap, np.zeros(5), sigma=0.01)
    exact = torch.linalg.eigvalsh(hessians(model, x, labels(5, 4))).numpy()  # the Hessian does not know the label
    # A draw of e'He varies by the root of 2 of its mean at most, and the bound is a square.
    assert found == pytest.approx(exact.sum(1) ** 2, rel=chance.deviations(5) * 2 * math.sqrt(2 / 20_000))
    assert (found > 0).all()
    assert (found <= 2 * (exact**2).sum(1) + np.abs(exact).sum(1) ** 2).all()


def test_with_much_noise_the_loss_is_not_quadratic_and_the_printed_upper_bound_fails():
    # The theorem assumes equation 14 to be exact. Far away the loss grows linearly, and the bound falls with sigma^-2.
    model, x, y = linear(4, (6,)), images(10, (6,)), labels(10, 4)
    rows = measured(model, x, y, 100.0, draws=50)
    found = stability_curve(rows, deltas=DELTAS, draws=50, sigma=100.0, longest_row=longest(model))
    assert found[0].below_upper < 0.5
    assert quadratic_share(rows, sigma=100.0) < 0.01


def test_the_curve_says_what_share_is_within_the_bounds_and_when_they_say_nothing():
    model, x, y = linear(4, (6,)), images(30, (6,)), labels(30, 4)
    rows = measured(model, x, y, 0.01)
    found = stability_curve(rows, deltas=DELTAS, draws=400, sigma=0.01, longest_row=longest(model))
    assert [one.delta for one in found] == DELTAS
    assert [one.eta.mean for one in found] == sorted(one.eta.mean for one in found)
    assert found[0].eta.mean < 0.01
    assert found[-1].eta.mean == 1
    assert found[-1].loss_gap is None
    assert (found[0].outside, found[-1].outside) == (30, 0)
    assert all(one.below_upper == one.above_lower == 1 for one in found)
    assert found[-1].vacuous == 1  # no draw outside: minus the gradient is all that is left
    # upper bound at eta = 1, with the interval's lower end (0.025) ** (1 / 400)
    low, curvature = 0.025 ** (1 / 400), rows["curvature"].to_numpy()
    largest = float(rows["largest_logit"].max())
    bounds = [
        upper_bound(np.array([eta]), delta=1.0, sigma=0.01, longest_row=longest(model), largest_logit=largest)[0]
        for eta in (low, 1.0)
    ]
    assert found[-1].looseness == pytest.approx(np.median(max(bounds) / curvature))


def test_curvature_beyond_the_bounds_is_counted():
    rows = pl.DataFrame(
        {
            "curvature": [1.0, 1e9], "gradient_norm": [0.0, 0.0], "loss": [0.0, 0.0], "trace": [0.0, 0.0],
            "trace_error": [0.0, 0.0], "largest_logit": [1.0, 1.0], "change": [0.0, 0.0],
            "inside": [[50], [50]], "loss_outside": [[9.0], [9.0]],
        }
    )  # fmt: skip
    (found,) = stability_curve(rows, deltas=[0.1], draws=100, sigma=1.0, longest_row=1.0)
    assert found.below_upper == 0.5  # at most 8 * 4 = 32
    assert found.above_lower == 0.5  # at least 4 * 0.4 * 81 = 129 on the left
    assert found.vacuous == 0


def test_the_interval_of_eta_covers():
    # Clopper-Pearson of 10 in 10: (0.025) ** (1 / 10) and 1.
    low, high = stable_share(np.array([10.0, 0.0, 5.0]), 10)
    assert low.tolist() == pytest.approx([0.025**0.1, 0.0, 0.18708602844739])
    assert high.tolist() == pytest.approx([1.0, 1 - 0.025**0.1, 0.81291397155261])


def test_the_upper_bound_uses_the_end_of_eta_that_makes_it_larger():
    # Where rows times delta exceed twice the largest logit, more draws inside make the bound larger.
    rows = pl.DataFrame(
        {
            "curvature": [1.0], "gradient_norm": [0.0], "loss": [0.0], "trace": [0.0], "trace_error": [0.0],
            "largest_logit": [1.0], "change": [0.0], "inside": [[5]], "loss_outside": [[0.0]],
        }
    )  # fmt: skip
    for delta, end in ((0.1, 0.18708602844739), (10.0, 0.81291397155261)):
        (found,) = stability_curve(rows, deltas=[delta], draws=10, sigma=1.0, longest_row=1.0)
        assert found.looseness == pytest.approx(8 * (end * delta**2 + (1 - end) * 4))


def test_the_squared_trace_has_no_bias_of_its_error_and_flat_losses_have_no_share():
    rows = pl.DataFrame({"trace": [3.0, 1.0], "trace_error": [1.0, 2.0]})
    assert trace_square(rows).tolist() == [8.0, 0.0]
    flat = rows.with_columns(gradient_norm=0.0, curvature=0.0, change=0.0, trace=0.0)
    assert quadratic_share(flat, sigma=0.1) is None
