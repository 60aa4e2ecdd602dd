"""Where the expansions start."""

import pytest
import torch

from holdfast.losses import cross_entropy
from holdfast.objectives.start import pgd1, starting_point
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf, with_radius
from tests.zoo import half_space, half_space_points, images, labels, normed, smooth

THREATS = [Linf(0.1), L2(0.4), L1(1.0)]


@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize("start", ["pgd1", "random", "zero"])
def test_point_and_what_is_left_stay_within_the_threat(threat, start):
    model, x, y = smooth(), images(20), labels(20, 5)
    point, left = starting_point(start, threat, cross_entropy, model, x, y, Streams(0, "", 20))
    assert not point.requires_grad
    assert float(point.min()) >= 0
    assert float(point.max()) <= 1
    assert bool((threat.distance(point, x) + left <= threat.eps + 1e-12).all())
    assert left == (threat.eps if start == "zero" else threat.eps / 2)
    assert torch.equal(point, x) == (start == "zero")


@pytest.mark.parametrize("threat", [Linf(0.02), L2(0.04)])
def test_one_step_reaches_the_optimum_of_a_half_space_in_linf_and_climbs_in_l2(threat):
    model = half_space()
    x, y = half_space_points(model)
    point = pgd1(threat, cross_entropy, model, x, y, Streams(0, "", len(x)))
    random = threat.sample(x, Streams(0, "", len(x)))
    with torch.no_grad():
        losses = [cross_entropy(model(each), y) for each in (x, random, point, threat.extreme(_grad(model, y, x), x))]
    assert bool((losses[2] > losses[1]).all())
    assert bool((losses[2] <= losses[3] + 1e-12).all())
    assert bool((losses[2] > losses[0]).all())
    if isinstance(threat, Linf):  # a step as long as the radius, from anywhere in the cube, ends on half of it or more
        assert bool((threat.distance(point, x) > 0.99 * threat.eps).all())


def _grad(model, y, x):
    return (model.weight * (1 - 2 * y)[:, None]).view_as(x).detach()


def test_the_step_is_taken_in_eval_mode_and_the_mode_comes_back():
    model, x, y = normed(dropout=0.5).train(), images(6), labels(6, 3)
    quiet = starting_point("pgd1", Linf(0.1), cross_entropy, model.eval(), x, y, Streams(0, "", 6))[0]
    assert torch.equal(
        starting_point("pgd1", Linf(0.1), cross_entropy, model.train(), x, y, Streams(0, "", 6))[0], quiet
    )
    starting_point("pgd1", Linf(0.1), cross_entropy, model.train(), x, y, Streams(0, "", 6))
    assert model.training
    assert model.norm.training


def test_a_threat_with_another_radius():
    assert with_radius(L2(0.4), 0.1) == L2(0.1)
