"""Curvature regularisation."""

import math

import pytest
import torch

from holdfast.losses import cross_entropy
from holdfast.objectives import CURE
from holdfast.objectives.cure import sign_direction
from holdfast.objectives.penalty import slope
from holdfast.recipe import parse_recipes
from tests.objectives.logistic import WEIGHT, F, Logistic, X, Y
from tests.zoo import images, labels, linear, normed, smooth


def test_closed_form_of_the_logistic_regression():
    """The gradient is (f - y) w, so that it turns by the change of f times |w|: not squared and not over h."""
    step = 0.3
    terms = CURE(weight=2.0, step=step)(Logistic(), X, Y)
    v = torch.tensor([-1.0, 1.0], dtype=torch.float64) / math.sqrt(2)
    there = float(torch.sigmoid((X[0] + step * v) @ WEIGHT))
    expected = abs(there - F) * math.sqrt(5)
    assert float(terms.parts["curvature"].detach()) == pytest.approx(expected, abs=1e-9)
    assert float(terms.total.detach()) == pytest.approx(-math.log(F) + 2 * expected, abs=1e-9)


def test_a_small_step_sees_the_hessian_along_the_sign():
    model, x, y, step = smooth(), images(6), labels(6, 5), 1e-5
    here = slope(cross_entropy, model, x, y)
    (bent,) = torch.autograd.grad(here.gradient, here.points, sign_direction(here.gradient))
    found = CURE(step=step)(model, x, y).parts["curvature"].detach() / step
    torch.testing.assert_close(found, bent.flatten(1).norm(dim=1).mean(), rtol=1e-4, atol=0)


def test_directions_have_length_one_or_are_zero():
    gradient = torch.tensor([[3.0, -0.1, 0.0], [0.0, 0.0, -2.0], [0.0, 0.0, 0.0]])
    expected = torch.tensor([[1.0, -1.0, 0.0], [0.0, 0.0, -math.sqrt(2)], [0.0, 0.0, 0.0]]) / math.sqrt(2)
    torch.testing.assert_close(sign_direction(gradient), expected)


def test_gradients_are_those_in_eval_mode_and_the_cross_entropy_is_not():
    model, x, y = normed(dropout=0.0), images(6), labels(6, 3)
    quiet = CURE()(model.eval(), x, y)
    with torch.no_grad():
        loss = cross_entropy(normed(dropout=0.0).train()(x), y).mean()
    trained = CURE()(normed(dropout=0.0).train(), x, y)
    assert float((loss - quiet.parts["loss"].detach()).abs()) > 1e-3
    torch.testing.assert_close(trained.parts["loss"].detach(), loss)
    # The running statistics moved before the gradients were taken, once; with them held still the two agree.
    model.train()
    model.norm.momentum = 0.0
    torch.testing.assert_close(CURE()(model, x, y).parts["curvature"], quiet.parts["curvature"])


def test_a_linear_network_of_one_margin_is_bent_by_the_cross_entropy_alone():
    model, x, y = linear(3), images(4), labels(4, 3)
    assert float(CURE()(model, x, y).parts["curvature"].detach()) > 0


def test_a_recipe_may_name_it_and_nothing_is_not_a_weight():
    text = "name: a\ndata: {source: digits}\nmodel: linear\ntrain: {objective: {cure: {weight: 2, step: 0.5}}}"
    (recipe,) = parse_recipes(text)
    assert recipe.train.objective == CURE(weight=2.0, step=0.5)
    with pytest.raises(ValueError, match="weight must be positive, got 0"):
        CURE(weight=0)
    with pytest.raises(ValueError, match="step must be positive, got -1"):
        CURE(step=-1)
