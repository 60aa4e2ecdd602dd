"""Algorithm 5.1: every class beyond the border in turn, and both of its criteria."""

import dataclasses

import pytest
import torch
from torch import nn

from holdfast.attacks import HierarchicalPGD
from holdfast.hierarchy import hierarchy_of
from holdfast.losses import cross_entropy
from holdfast.rng import Streams
from holdfast.threat import L2, Linf
from holdfast.wrappers import Counted
from tests import chance
from tests.attacks.crossing import HIERARCHY, can_cross, crossed, subject
from tests.zoo import images, smooth

EPS = 0.12


def pgd(**fields):
    return HierarchicalPGD(**{"threat": Linf(EPS), "steps": 20, "hierarchy": HIERARCHY, **fields})


def gradients_of(attack, model, x, y):
    """How often each example is differentiated."""
    forward, backward = (torch.zeros(len(x), dtype=torch.int64) for _ in range(2))
    attack(Counted(model, forward, gradients=backward), x, y)
    return backward


@pytest.mark.parametrize("threat", [Linf(EPS), L2(0.25)], ids=["linf", "l2"])
def test_crosses_what_can_be_crossed(threat):
    model, x, y = subject()
    broken = crossed(model, pgd(threat=threat)(model, x, y), y)
    if isinstance(threat, Linf):
        assert not bool((broken & ~can_cross(EPS)).any())
        assert int((broken & can_cross(EPS, slack=0.1)).sum()) >= 0.9 * int(can_cross(EPS, slack=0.1).sum())
    assert bool(broken.any())


def test_a_point_that_breaks_nothing_is_the_image():
    model, x, y = subject()
    z = pgd()(model, x, y)
    held = ~crossed(model, z, y)
    assert bool(held.any())
    assert torch.equal(z[held], x[held])


class Decoy(nn.Module):
    """Towards c the pixel rises, and d is above c by the same wherever it is."""

    def forward(self, x):
        rise = 4 * (x.flatten(1)[:, :1] - 0.6)
        return torch.cat((torch.zeros_like(rise), rise, rise + 0.2), dim=1)


def test_as_printed_the_last_point_must_be_the_target_whatever_else_it_crosses_into():
    model, x, y = Decoy(), torch.full((1, 1, 1, 1), 0.5), torch.tensor([0])
    hierarchy = hierarchy_of(("a", "c", "d"), {"group": {"x": ["a"], "y": ["c", "d"]}})
    outside = pgd(hierarchy=hierarchy, random_start=False, steps=5)
    printed = dataclasses.replace(outside, success="target")
    assert model(outside(model, x, y)).argmax(1).tolist() == [2]
    assert model(printed(model, x, y)).argmax(1).tolist() == [2]  # reached once d itself is the target
    backward = gradients_of(printed, model, x, y)
    assert backward.tolist() == [10]  # the descent to c ended in d, and did not count
    assert gradients_of(outside, model, x, y).tolist()[0] < 5
    alone = hierarchy_of(("a", "c", "d"), {}, [[0, 2, 1], [1, 0, 1], [1, 1, 0]])  # only c matters
    printed = dataclasses.replace(printed, hierarchy=alone, severity=2.0)
    assert torch.equal(printed(model, x, y), x)


def test_what_counts_as_printed_counts_as_the_metric_has_it_and_not_the_other_way_round():
    model, x = smooth(6, seed=4), images(60, seed=1)
    with torch.no_grad():
        y = model(x).argmax(1)
    attack = pgd(threat=Linf(0.05), steps=3)
    metric = crossed(model, attack(model, x, y), y)
    printed = crossed(model, dataclasses.replace(attack, success="target")(model, x, y), y)
    assert not bool((printed & ~metric).any())
    assert int(metric.sum()) > int(printed.sum()) > 0


def test_an_example_that_stands_costs_all_steps_for_every_class_outside_and_a_broken_one_leaves():
    model, x, y = subject()
    backward = gradients_of(pgd(threat=Linf(1e-6), steps=3), model, x, y)
    outside = torch.from_numpy(HIERARCHY.border().crossing).sum(1)[y]
    assert backward.tolist() == (3 * outside).tolist()
    attack = pgd(threat=Linf(0.4), steps=3)
    broken = crossed(model, attack(model, x, y), y)
    assert bool(broken.any())
    assert bool((gradients_of(attack, model, x, y)[broken] < 3 * outside[broken]).all())


class Recorded:
    """A loss that remembers at which targets it was asked."""

    def __init__(self):
        self.targets = []

    def __call__(self, logits, y):
        self.targets.append(y.tolist())
        return cross_entropy(logits, y)


def test_the_average_case_has_one_random_class_outside_each_equally_likely():
    model, loss = subject()[0], Recorded()
    x, y = images(6000, (1, 2, 2)), torch.full((6000,), 1)  # of b: a, c and d are outside
    pgd(threat=Linf(1e-6), steps=1, targets="random", loss=loss, random_start=False, until_lost=False)(
        model, x, y, rng=Streams(0, "", 6000)
    )
    (tried,) = {tuple(targets) for targets in loss.targets}
    counts = [tried.count(label) for label in range(6)]
    assert [label for label in range(6) if counts[label]] == [0, 2, 3]
    for label in (0, 2, 3):
        assert abs(counts[label] / 6000 - 1 / 3) < chance.share_error(6000, 1 / 3)


def test_for_training_the_point_is_nearer_to_its_target_whether_it_breaks_anything_or_not():
    model, x, y = subject()
    attack = pgd(threat=Linf(0.02), targets="random", until_lost=False)
    z = attack(model, x, y)
    with torch.no_grad():
        before, after = (model(one) for one in (x, z))
    flags = torch.from_numpy(HIERARCHY.border().crossing)[y]
    lead = [
        one.masked_fill(~flags, -torch.inf).amax(1) - one.masked_fill(flags, -torch.inf).amax(1)
        for one in (before, after)
    ]
    assert bool((z != x).flatten(1).any(1).all())
    assert float((lead[1] - lead[0]).mean()) > 0


def test_probabilities_come_as_logarithms_so_that_products_give_the_same_points():
    model, x, y = subject()
    plain = pgd(until_lost=False, targets="random")(model, x, y)
    logarithms = pgd(until_lost=False, targets="random")(lambda z: model(z).log_softmax(1), x, y)
    torch.testing.assert_close(plain, logarithms, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"steps": 0}, "steps and restarts must be at least 1"),
        ({"targets": "some"}, "targets: unknown name 'some'"),
        ({"success": "near"}, "success: unknown name 'near'"),
        ({"success": "target", "until_lost": False}, "until_lost"),
    ],
)
def test_fields_that_mean_nothing_are_refused(fields, problem):
    with pytest.raises(ValueError, match=problem):
        pgd(**fields)
