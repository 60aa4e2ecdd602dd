"""First-order adversarial regularisation."""

import math

import pytest
import torch

from holdfast.losses import cross_entropy, margin
from holdfast.objectives import FOAR
from holdfast.objectives.penalty import slope
from holdfast.objectives.start import starting_point
from holdfast.recipe import parse_recipes
from holdfast.rng import Streams
from holdfast.threat import L0, L1, L2, Linf
from tests.objectives.logistic import Logistic, X, Y
from tests.zoo import images, labels, linear


def test_has_the_reference_value():
    # 8/255 times the sum of the gradient's absolute values.
    terms = FOAR(threat=Linf(8 / 255), start="zero")(Logistic(), X, Y)
    assert float(terms.parts["regulariser"].detach()) == pytest.approx(0.0494098059, abs=6e-11)


@pytest.mark.parametrize(("threat", "order"), [(Linf(0.2), 1), (L2(0.2), 2), (L1(0.2), math.inf)])
def test_half_of_the_budget_times_the_dual_norm_at_the_point(threat, order):
    model, x, y, rng = linear(3), images(5), labels(5, 3), Streams(1, "f", 5)
    point, left = starting_point("pgd1", threat, cross_entropy, model, x, y, rng.split("start"))
    assert left == 0.1
    grad = slope(cross_entropy, model, point, y).gradient
    terms = FOAR(threat=threat)(model, x, y, rng=rng)
    expected = 0.1 * torch.linalg.vector_norm(grad.flatten(1), order, dim=1).mean()
    torch.testing.assert_close(terms.parts["regulariser"], expected)
    torch.testing.assert_close(terms.parts["loss"], cross_entropy(model(point), y).mean())
    torch.testing.assert_close(terms.total, terms.parts["loss"] + expected)


def test_of_a_linear_margin_it_is_the_margin_under_attack():
    """The linearised margin is the margin itself: what it gains within the ball is the regulariser."""
    model, x, y = linear(2), images(6, low=0.4, high=0.6), labels(6, 2)
    terms = FOAR(threat=Linf(0.05), loss=margin, start="zero")(model, x, y)
    rows = model.weight[1 - y] - model.weight[y]
    attacked = x + 0.05 * rows.sign().view_as(x)
    gain = margin(model(attacked), y) - margin(model(x), y)
    torch.testing.assert_close(terms.parts["regulariser"], gain.mean())


def test_a_recipe_may_name_it_and_l0_is_refused():
    text = "name: a\ndata: digits\nmodel: linear\ntrain: {objective: {foar: {threat: {l2: 0.5}, start: zero}}}"
    (recipe,) = parse_recipes(text)
    assert recipe.train.objective == FOAR(threat=L2(0.5), start="zero")
    with pytest.raises(ValueError, match="foar has no l0 form"):
        FOAR(threat=L0(2))
