"""Mixtures of half-spaces are half-spaces, so that every number under attack is known."""

import math

import numpy as np
import polars as pl
import pytest
import torch

from holdfast.attacks import APGD, PGD
from holdfast.ensembles import AdaptiveComposite, GradientRatio, LocalBias, NearestNeighbours, Probability
from holdfast.questions.mixing.measurement import (
    attempts,
    gradient_sizes,
    mixing_measures,
    mixtures,
    resized,
    right_answers,
    tried,
)
from holdfast.questions.mixing.summary import AROUND_POLICY, POLICY, Plan, Try, grid_with, summarise_mixing
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf
from tests.zoo import HalfSpace, half_space_points, images, labels, linear, smooth

STRENGTHS = grid_with((0.25, 1.0, 4.0))
PLAN = Plan(strengths=STRENGTHS, eps=0.01, radii=(0.005, 0.02), at=1.0)


def half_spaces(size=12):
    """Two different half-spaces through the middle of the box; the second answers less to each value."""
    return [
        HalfSpace(weight, -0.5 * weight.sum())
        for weight in (scale * Streams(seed, "two").normal(torch.empty(1, size, dtype=torch.float64))[0]
                       for seed, scale in ((0, 2.0), (1, 0.5)))
    ]  # fmt: skip


def mixed_half_space(standard, robust, strength):
    """Eq. 5 of two half-spaces, whose gradients are the same everywhere."""
    if math.isinf(strength):
        return robust
    pull = strength * standard.weight.abs().sum() / robust.weight.abs().sum()
    parts = [
        (ours + pull * theirs) / (1 + pull)
        for ours, theirs in zip(standard.parameters(), robust.parameters(), strict=True)
    ]
    return HalfSpace(*(part.detach() for part in parts))


@pytest.mark.parametrize(
    "attack", [PGD(threat=Linf(0.01), steps=5), PGD(threat=Linf(0.01), steps=5, random_start=False)]
)
def test_every_mixture_under_every_aim_is_as_algebra_says(attack):
    standard, robust = half_spaces()
    x, y = half_space_points(standard, 40)
    y[::5] = 1 - y[::5]  # some are wrong from the start, and their attacks must not stop there
    side = 2.0 * y - 1
    classifiers = mixtures(standard, robust, GradientRatio(eps_c=0.0), STRENGTHS)
    found = mixing_measures(PLAN, (standard, robust), classifiers, attack, x, y)["right"]
    known = [mixed_half_space(standard, robust, strength) for strength in STRENGTHS]
    assert found.shape == (40, 1 + 5 + 2 * 3, 5)
    for number, one in enumerate(PLAN.tries):
        # the attack goes to the corner of the ball that the weights of its aim point to
        away = 0 if one.aim is None else one.eps * known[PLAN.place(one.aim)].weight.sign()
        for place, mixture in enumerate(known):
            margin = mixture.signed(x) - side * (mixture.weight @ (away + torch.zeros(12, dtype=torch.float64)))
            assert torch.equal(found[:, number, place], margin * side > 0), (one, place)


def test_gradient_sizes_of_linear_networks_are_the_dual_norms_of_their_rows():
    standard, robust, x = linear(3), linear(3, seed=1), images(4)
    for ball, order in ((Linf(0.1), 1), (L2(1.0), 2), (L1(1.0), math.inf)):
        sizes = gradient_sizes(standard, robust, x, ball)
        for size, model in zip(sizes, (standard, robust), strict=True):
            expected = torch.linalg.vector_norm(model.weight.detach(), order, dim=1).expand(4, 3)
            torch.testing.assert_close(size, expected)


def test_sizes_are_measured_at_the_images_and_at_points_of_attacks_on_each_alone():
    standard, robust, x, y = smooth(), smooth(seed=1), images(5), labels(5, 5)
    classifiers = mixtures(standard, robust, Probability(), STRENGTHS)
    attack = PGD(threat=L2(0.01), steps=3, until_lost=False)
    found = mixing_measures(PLAN, (standard, robust), classifiers, attack, x, y)
    points = {"clean": x}
    for name, aim, number in (("on_standard", standard, 0), ("on_robust", robust, 4)):
        one = attempts(PLAN, classifiers, attack)[number]
        points[name] = attack(aim, x, y, rng=Streams(0, "", 5).split(one.name))
    for name, z in points.items():
        for who, size in zip(("standard", "robust"), gradient_sizes(standard, robust, z, L2(1.0)), strict=True):
            torch.testing.assert_close(found[f"{who}_{name}"], size)


@pytest.mark.parametrize("mixing", [GradientRatio(), GradientRatio(gradients="largest"), Probability()])
def test_results_do_not_depend_on_the_batch(mixing):
    x, y, rng = images(6), labels(6, 5), Streams(3, "m", 6)
    pair = smooth(), smooth(seed=1)
    classifiers = mixtures(*pair, mixing, STRENGTHS)
    attack = PGD(threat=Linf(0.01), steps=3)
    whole = mixing_measures(PLAN, pair, classifiers, attack, x, y, rng=rng)
    parts = [
        mixing_measures(PLAN, pair, classifiers, attack, x[i::2], y[i::2], rng=rng[torch.arange(i, 6, 2)])
        for i in (0, 1)
    ]
    for name, values in whole.items():
        for start, part in enumerate(parts):
            torch.testing.assert_close(part[name], values[start::2])


def test_networks_and_images_are_left_as_they_were():
    standard, robust, x, y = smooth(), smooth(seed=1), images(3), labels(3, 5)
    before, state = x.clone(), torch.random.get_rng_state()
    classifiers = mixtures(standard, robust, GradientRatio(), STRENGTHS)
    mixing_measures(PLAN, (standard, robust), classifiers, PGD(threat=Linf(0.01), steps=2), x, y)
    assert torch.equal(x, before)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(weight.grad is None for model in (standard, robust) for weight in model.parameters())


def test_a_policy_is_one_more_mixture_and_two_more_aims():
    class Maps(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x)

        def stages(self, x):
            yield x

    class Always(torch.nn.Module):
        def forward(self, ours, theirs):
            return ours.new_zeros(len(ours))  # the logarithm of 1

    standard, robust, x, y = Maps(smooth()), Maps(smooth(seed=1)), images(4), labels(4, 5)
    plan = Plan(strengths=STRENGTHS, eps=0.2, at=1.0, adaptive=True)
    whole = AdaptiveComposite(standard, robust, Probability(), Always())
    classifiers = [*mixtures(standard, robust, Probability(), STRENGTHS), whole]
    attack = PGD(threat=Linf(0.2), steps=4, random_start=False)
    found = mixing_measures(plan, (standard, robust), classifiers, attack, x, y)["right"]
    assert found.shape == (4, 8, 6)
    assert torch.equal(found[:, :, plan.place(POLICY)], found[:, :, plan.place(1.0)])
    for aim in (POLICY, AROUND_POLICY):  # a policy that looks at nothing misleads nobody
        assert torch.equal(found[:, plan.tries.index(Try(0.2, aim))], found[:, 1 + plan.place(1.0)])


def test_attacks_may_climb_stand_ins_of_what_they_are_tried_on():
    """Neighbours have no gradient; soft ones have."""
    images_known, names = images(30, seed=5), labels(30, 5, seed=5)
    hard, soft = (NearestNeighbours(images_known, names, 5, k=5, weights=weights) for weights in ("uniform", "soft"))
    x, model, plan = images(6), smooth(), Plan(strengths=STRENGTHS, eps=0.3)
    y = hard(x).argmax(1)
    judged, aims = (mixtures(model, one, LocalBias(), STRENGTHS) for one in (hard, soft))
    attack = PGD(threat=Linf(0.3), steps=3, random_start=False, until_lost=False)
    found = tried(judged, attempts(plan, aims, attack), x, y)
    z = attack(soft, x, y)
    assert torch.equal(found[:, -1, -1], right_answers([hard], z, y)[:, 0])
    assert not torch.equal(z, x)


def test_a_larger_ball_has_longer_steps():
    assert resized(PGD(threat=Linf(0.1), step_size=0.02), 0.2) == PGD(threat=Linf(0.2), step_size=0.04)
    assert resized(PGD(threat=L2(0.1)), 0.2) == PGD(threat=L2(0.2))
    assert resized(APGD(threat=Linf(0.1)), 0.05) == APGD(threat=Linf(0.05))


def test_the_crossing_is_that_of_the_two_networks_and_forgets_the_policy():
    plan = Plan(strengths=(0.0, 1.0, 10.0, math.inf), eps=0.1, at=1.0, adaptive=True)
    right = np.zeros((4, len(plan.tries), 5), dtype=bool)

    def found():
        return summarise_mixing(pl.Series(right.tolist()), plan).crossing

    right[:, :, 3] = True  # the robust network is right about everything
    assert found() == math.inf
    right[:, 3:5, 0], right[:, 3:5, 3] = True, False  # but for the aims 10 and infinity
    assert found() == pytest.approx(math.sqrt(10))
    right[:, 5, 0], right[:, 5, 3] = False, True  # an aim at the policy says nothing of strengths
    assert found() == pytest.approx(math.sqrt(10))
