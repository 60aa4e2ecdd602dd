"""Double backpropagation."""

import math

import pytest
import torch

from holdfast.objectives import InputGradient
from holdfast.recipe import parse_recipes
from tests.objectives.logistic import WEIGHT, F, Logistic, X, Y
from tests.zoo import images, labels, linear


@pytest.mark.parametrize(("norm", "squared"), [("l1", 9.0), ("l2", 5.0), ("linf", 4.0)])
def test_closed_form_of_the_logistic_regression(norm, squared):
    """The gradient is (f - y) w."""
    terms = InputGradient(weight=2.0, norm=norm)(Logistic(), X, Y)
    expected = (1 - F) ** 2 * squared
    assert float(terms.parts["gradient"].detach()) == pytest.approx(expected, abs=1e-9)
    assert float(terms.total.detach()) == pytest.approx(-math.log(F) + 2 * expected, abs=1e-9)


def test_gradient_of_the_weights_of_the_logistic_regression():
    """Of (1 - f)^2 |w|^2: -2 (1 - f) f (1 - f) |w|^2 x + 2 (1 - f)^2 w; the cross entropy adds -(1 - f) x."""
    model = Logistic()
    (grad,) = torch.autograd.grad(InputGradient()(model, X, Y).total, [model.weight])
    expected = -(1 - F) * X[0] - 2 * (1 - F) ** 2 * F * 5 * X[0] + 2 * (1 - F) ** 2 * WEIGHT
    torch.testing.assert_close(grad, expected, rtol=0, atol=1e-8)


def test_each_example_has_its_own_gradient():
    """The mean of squared norms of gradients of sums; of a mean it would be smaller by the batch squared."""
    model, x, y = linear(3), images(4), labels(4, 3)
    residual = model(x).softmax(1) - torch.nn.functional.one_hot(y, 3)
    expected = (residual @ model.weight).square().sum(1).mean()
    torch.testing.assert_close(InputGradient()(model, x, y).parts["gradient"], expected)


def test_a_recipe_may_name_it_and_bad_settings_are_refused():
    text = "name: a\ndata: {source: digits}\nmodel: linear\ntrain: {objective: {input_gradient: {weight: 2, norm: l1}}}"
    (recipe,) = parse_recipes(text)
    assert recipe.train.objective == InputGradient(weight=2.0, norm="l1")
    with pytest.raises(ValueError, match="weight must be positive"):
        InputGradient(weight=0.0)
    with pytest.raises(ValueError, match="norm: unknown name 'l3'"):
        InputGradient(norm="l3")
