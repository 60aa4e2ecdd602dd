"""Every attack under every threat on models of two, three and a hundred classes, against what is possible at all.

On a linear model the threat set of an example holds a point where class k is above the label exactly if the point
that is extreme in the direction of w_k - w_y is one, box included. For two classes this is the half-space.
"""

import dataclasses
import functools
import math

import pytest
import torch

from holdfast.rng import Streams
from holdfast.testing.attack import check_stays_inside
from tests.contracts import cheap
from tests.contracts.test_attacks import PAIRS, instance
from tests.zoo import images, linear

EASY = 0.4
"""The part of the budget with which an example can be broken that every attack should break."""


@functools.cache
def subject(classes):
    """A linear model and images, with the labels that it gives them."""
    model, x = linear(classes, (2, 3), seed=classes), images(8, (2, 3), seed=3)
    return model, x, predicted(model, x)


@torch.no_grad()
def predicted(model, z):
    return model(z).argmax(1)


@functools.cache
@torch.no_grad()
def highest(threat, classes):
    """How far each class can come above the label within the threat set, (N, K)."""
    model, x, y = subject(classes)
    gaps = []
    for other in range(classes):
        logits = model(threat.extreme((model.weight[other] - model.weight[y]).view_as(x), x))
        gaps.append(logits[:, other] - logits.gather(1, y[:, None])[:, 0])
    return torch.stack(gaps, dim=1).scatter(1, y[:, None], -torch.inf)


def part(name):
    """The same threat with a part of its budget."""
    threat = cheap.THREATS[name]
    eps = max(1, int(EASY * threat.eps)) if name in cheap.COUNTS else EASY * threat.eps
    return dataclasses.replace(threat, eps=eps)


@pytest.mark.parametrize("classes", [2, 3, 100])
@pytest.mark.parametrize(("name", "threat"), PAIRS)
def test_breaks_what_is_easy_and_nothing_that_is_impossible(name, threat, classes):
    attack, (model, x, y) = instance(name, threat), subject(classes)
    possible = highest(attack.threat, classes).amax(1) > 0
    easy = highest(part(threat), classes).amax(1) > 0
    z = check_stays_inside(attack, model, x, y, rng=Streams(1, "", len(x)))
    assert_breaks(predicted(model, z) != y, possible, easy, classes)


@pytest.mark.parametrize("classes", [2, 3, 100])
@pytest.mark.parametrize(("name", "threat"), PAIRS)
def test_reaches_the_easiest_class_and_none_that_is_impossible(name, threat, classes):
    attack, (model, x, y) = instance(name, threat), subject(classes)
    gap, target = highest(part(threat), classes).max(1)
    possible = highest(attack.threat, classes).gather(1, target[:, None])[:, 0] > 0
    z = check_stays_inside(attack, model, x, y, target=target, rng=Streams(1, "", len(x)))
    assert_breaks(predicted(model, z) == target, possible, gap > 0, classes)


def assert_breaks(broken, possible, easy, classes):
    """Nothing impossible; of what is easy, a third, and of a half-space, where no class is in the way, everything."""
    assert not bool((broken & ~possible).any())
    assert bool(easy.any())
    needed = int(easy.sum()) if classes == 2 else math.ceil(int(easy.sum()) / 3)
    assert int((broken & easy).sum()) >= needed
