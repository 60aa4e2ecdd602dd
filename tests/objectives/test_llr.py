"""Local linearity regularisation."""

import math

import pytest
import torch

from holdfast.losses import cross_entropy
from holdfast.objectives import LLR
from holdfast.recipe import parse_recipes
from holdfast.rng import Streams
from holdfast.threat import L0, L2, Linf
from tests.objectives.logistic import WEIGHT, F, Logistic, X, Y
from tests.zoo import images, labels, smooth


@pytest.mark.parametrize(("threat", "dual"), [(Linf(0.2), 3.0), (L2(0.2), math.sqrt(5))])
def test_closed_form_of_the_logistic_regression(threat, dual):
    """The loss is convex in t = <w, delta>, so it is least linear at one of the ends t = +-eps |w|_*.

    PGD goes to the end on the side of its random start; the mean of many starts is between the two.
    """
    score, ends = float(X[0] @ WEIGHT), {}
    for side in (-1, 1):
        t = side * 0.2 * dual
        ends[side] = math.log1p(math.exp(-(score + t))) - math.log1p(math.exp(-score)) - t * (F - 1)
    found, sides = [], set()
    for seed in range(8):
        terms = LLR(threat=threat, steps=20, step_size=0.1)(Logistic(), X, Y, rng=Streams(seed, "", 1))
        value = float(terms.parts["nonlinearity"].detach())
        side = min(ends, key=lambda one: abs(ends[one] - value))
        sides.add(side)
        assert value == pytest.approx(ends[side], abs=1e-7)
        assert float(terms.parts["slope"].detach()) == pytest.approx(0.2 * dual * (1 - F), abs=1e-7)
        found.append(value)
    assert sides == {-1, 1}
    total = terms.parts["loss"] + 4 * terms.parts["nonlinearity"] + 3 * terms.parts["slope"]
    torch.testing.assert_close(terms.total, total)


def distance_from_linear(model, x, y, z):
    x = x.clone().requires_grad_()
    values = cross_entropy(model(x), y)
    (grad,) = torch.autograd.grad(values.sum(), x)
    with torch.no_grad():
        return (cross_entropy(model(z), y) - values - (grad * (z - x)).flatten(1).sum(1)).abs()


def test_the_search_finds_points_that_are_less_linear_than_random_ones():
    model, x, y, threat = smooth(), images(20), labels(20, 5), Linf(0.2)
    found = float(LLR(threat=threat)(model, x, y).parts["nonlinearity"].detach())
    draws = [distance_from_linear(model, x, y, threat.sample(x, Streams(s, "", 20))) for s in range(50)]
    assert found > float(torch.stack(draws).amax(0).mean())


def test_what_it_reports_belongs_to_a_point_of_the_threat():
    model, x, y, seen = smooth(), images(6), labels(6, 5), []

    def watching(z):
        seen.append(z.detach().clone())
        return model(z)

    terms = LLR(threat=Linf(0.1), steps=3)(watching, x, y)
    z = seen[-1]
    assert float((z - x).abs().max()) <= 0.1 + 1e-12
    assert float(z.min()) >= 0
    assert float(z.max()) <= 1
    torch.testing.assert_close(terms.parts["nonlinearity"].detach(), distance_from_linear(model, x, y, z).mean())


def test_a_recipe_may_name_it_and_impossible_settings_are_refused():
    text = "name: a\ndata: {source: digits}\nmodel: linear\ntrain: {objective: {llr: {threat: {linf: 0.1}, steps: 2}}}"
    (recipe,) = parse_recipes(text)
    assert recipe.train.objective == LLR(threat=Linf(0.1), steps=2)
    for change, message in (
        ({"steps": 0}, "steps must be at least 1"),
        ({"step_size": 0.0}, "step_size must be positive"),
        ({"weight": -1.0}, "weight must be finite and not negative"),
        ({"slope_weight": math.inf}, "slope_weight must be finite and not negative"),
        ({"threat": L0(2)}, "llr has no l0"),
    ):
        with pytest.raises(ValueError, match=message):
            LLR(**({"threat": Linf(0.1)} | change))
