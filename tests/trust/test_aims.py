"""Other aims of the same adversary: losses, targets and parts of the network."""

import copy
import math

import pytest
import torch
from torch import nn

from holdfast.attacks import APGD, PGD, Aimed
from holdfast.attacks.usual import usual
from holdfast.ensembles import (
    AdaptiveComposite,
    Composite,
    GradientRatio,
    LocalBias,
    NearestNeighbours,
    Policy,
    Probability,
    RobustTransform,
)
from holdfast.ensembles.views import GroupView
from holdfast.hierarchy import hierarchy_of
from holdfast.losses import margin
from holdfast.models import build
from holdfast.models.cnn import CNN
from holdfast.models.network import Normalised
from holdfast.threat import Linf
from holdfast.trust.aims import other_losses, parts, parts_of
from holdfast.trust.attacks import Case, black_box, convergence, larger_eps, unbounded
from holdfast.trust.transfer import transfer
from holdfast.wrappers import BPDA, Counted, ExpectedOverRandomness
from tests import zoo


def mixture(transform=None):
    standard, robust = copy.deepcopy(zoo.digits_cnn()), copy.deepcopy(zoo.digits_robust())
    return Composite(standard, robust, Probability(transform=transform), 1.0).eval()


def hiding():
    """A mixture of which a transformation makes the robust half sure where it is wrong, and flat where it is sure."""
    return mixture(RobustTransform(scale=5.0, power=4.0, shift=2.0, correction=0, sharpen=False))


def case(model, attack=None, count=64, eps=0.15):
    x, y = zoo.digits()
    return Case(model, x[:count], y[:count], attack or usual(Linf(eps)))


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: Normalised(f, [0.0], [1.0]), lambda f: BPDA(f, lambda x: x)])
def test_a_composite_that_hides_its_robust_half_is_caught_also_behind_wrappers(wrap):
    judged = case(wrap(hiding()))
    verdict = parts(judged)
    assert verdict.level == "fail"
    assert "an attack on the robust classifier 7" in verdict.finding
    assert "run `aimed` with strength .inf too" in verdict.remedy
    held = judged.held(Aimed(attack=APGD(threat=Linf(0.15), steps=50, loss=margin), strength=math.inf))
    assert float((judged.standing & held).double().mean()) == pytest.approx(
        float(judged.standing.double().mean()) - verdict.value
    )


def test_the_same_composite_without_the_transformation_passes():
    assert parts(case(mixture())).level == "pass"


@pytest.mark.slow
def test_no_other_condition_sees_what_the_composite_hides():
    judged = case(hiding())
    others = (larger_eps, unbounded, convergence, other_losses, black_box, transfer)
    assert {condition(judged).level for condition in others} <= {"pass", "warn"}


def test_a_network_of_one_piece_has_no_parts():
    verdict = parts(case(zoo.digits_mlp(), count=8))
    assert (verdict.level, verdict.remedy) == ("pass", "")
    assert "no parts to aim at" in verdict.finding


def test_the_inside_of_every_wrapper_is_a_part_and_so_is_a_composite_in_it():
    pair, x = Composite(zoo.smooth(3), zoo.smooth(3, seed=1), GradientRatio(), 2.0), zoo.images(4)
    model = ExpectedOverRandomness(BPDA(Normalised(pair, [0.5], [0.5]).double(), torch.round), 2)
    found = {part.name: part.classifier(x) for part in parts_of(Counted(model, torch.zeros(4, dtype=torch.int64)))}
    rounded, plain = 2 * (x.round() - 0.5), 2 * (x - 0.5)
    expected = {
        "the accurate classifier": pair.standard(rounded),
        "the robust classifier": pair.robust(rounded),
        "the classifier inside ExpectedOverRandomness": pair(rounded),
        "the classifier inside BPDA": pair(plain),
    }
    assert list(found) == list(expected)
    for name, logits in expected.items():
        torch.testing.assert_close(found[name], logits)


def test_a_view_of_groups_has_their_summed_probabilities_as_a_part():
    level = hierarchy_of(tuple("abc"), {"group": {"x": ["a", "c"], "y": ["b"]}}).levels[0]
    model, x = zoo.smooth(3), zoo.images(4)
    (part,) = parts_of(Counted(GroupView(model, level), torch.zeros(4, dtype=torch.int64)))
    expected = torch.stack([model(x)[:, [0, 2]].logsumexp(1), model(x)[:, 1]], dim=1)
    torch.testing.assert_close(part.classifier(x), expected)
    assert part.check == "`hierarchical` with `view: sum`"
    assert not list(parts_of(part.classifier))


def test_a_transformation_is_left_out_once():
    networks, x = (zoo.smooth(3), zoo.smooth(3, seed=1)), zoo.images(4)
    plain = Composite(*networks, Probability(), 2.0)
    shaped = Composite(*networks, Probability(transform=RobustTransform()), 2.0)
    assert len(list(parts_of(plain))) == 2
    *_, last = parts_of(shaped)
    assert last.name == "the composite without its transformation"
    assert last.check == "`aimed` with the strength of the composite"
    torch.testing.assert_close(last.classifier(x), plain(x))


def test_composites_of_composites_and_policies_have_their_parts_too():
    inner = Composite(zoo.smooth(3), zoo.smooth(3, seed=1), GradientRatio(), 2.0)
    outer = Composite(inner, zoo.smooth(3, seed=2), GradientRatio(), 2.0)
    found = {part.name: part.classifier for part in parts_of(outer)}
    assert found["the robust classifier of the accurate classifier"] is inner.robust
    assert len(found) == 4
    networks = [build(CNN(blocks=((4,),)), (1, 8, 8), 3, seed=seed).eval() for seed in (0, 1)]
    policy = zoo.seeded(lambda: Policy((4, 4), width=0.05))
    checks = [part.check for part in parts_of(AdaptiveComposite(*networks, GradientRatio(), policy).eval())]
    assert checks == [f"`aimed` with strength {strength}" for strength in ("0", ".inf", "null")]


def test_a_part_without_a_gradient_is_left_out():
    x, y = zoo.digits()
    neighbours = NearestNeighbours(x[100:200], y[100:200], 10, k=3, weights="uniform")
    model = Composite(copy.deepcopy(zoo.digits_mlp()), neighbours, LocalBias(), 1.0).eval()
    finding = parts(case(model, count=12)).finding
    assert "the accurate classifier" in finding
    assert "the robust classifier" not in finding


class Scaled(nn.Module):
    """Logits so large that the cross entropy of right answers is exactly zero, and its gradient too."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return 1e4 * self.model(x)


def test_a_loss_that_misleads_is_caught_by_the_others_with_their_names():
    verdict = other_losses(case(Scaled(zoo.digits_mlp()), PGD(threat=Linf(0.1), steps=20), count=40))
    assert verdict.level == "fail"
    assert verdict.finding.startswith("`apgd` on margin breaks ")
    assert "run `apgd` on margin" in verdict.remedy
    assert "(accuracy: " in verdict.finding


def test_the_loss_that_the_attack_climbs_is_not_tried_again():
    verdict = other_losses(case(zoo.digits_mlp(), APGD(threat=Linf(0.1), steps=20, loss=margin), count=8))
    assert verdict.level == "pass"
    assert "on margin" not in verdict.finding
    assert all(name in verdict.finding for name in ("on cross_entropy", "on dlr", "`apgd_targeted`"))


def test_the_remedy_names_the_attacks_that_are_needed_and_no_others():
    """Two models of which each breaks the examples that only it knows; a third breaks nothing new."""
    model = Composite(Bend(0), Bend(1), Sum(), 1.0)
    x, y = torch.full((40, 2), 0.5, dtype=torch.float64), torch.zeros(40, dtype=torch.int64)
    verdict = parts(Case(model, x, y, APGD(threat=Linf(0.2), steps=5)))
    assert verdict.level == "fail"
    assert "`aimed` with strength .inf" in verdict.remedy
    assert "`aimed` with strength 0" not in verdict.remedy


class Bend(nn.Module):
    """Class 1 where one coordinate is above 0.6."""

    def __init__(self, place):
        super().__init__()
        self.place = place

    def forward(self, x):
        rise = x[:, self.place] - 0.6
        return torch.stack((-rise, rise), dim=1)


class Sum:
    """The answer of the second classifier, with the gradient of the first, which leads nowhere."""

    def __call__(self, standard, robust, x, strength):
        if strength == 0:
            return standard(x)
        return robust(x).detach() + standard(x) - standard(x).detach()
