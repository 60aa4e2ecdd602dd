"""Attacks on a view cross borders that can be crossed, and no others."""

import pytest
import torch
from torch import nn

from holdfast.attacks import APGD, PGD, Aimed, AutoAttack, Hierarchical, Square, Targeted
from holdfast.attacks.persistence import goes_to_the_end
from holdfast.errors import ModelError, RecipeError
from holdfast.hierarchy import hierarchy_of
from holdfast.threat import Linf
from holdfast.traits import traits_of
from holdfast.wrappers import Counted
from tests.attacks.crossing import HIERARCHY, can_cross, crossed, subject
from tests.zoo import images, smooth

EPS = 0.12


def on_groups(attack, **fields):
    return Hierarchical(attack=attack, hierarchy=HIERARCHY, **fields)


@pytest.mark.parametrize(
    "attack",
    [
        APGD(threat=Linf(EPS), steps=30),
        PGD(threat=Linf(EPS), steps=30),
        AutoAttack(threat=Linf(EPS), steps=20, targets=2, queries=50),
    ],
    ids=lambda attack: type(attack).__name__,
)
def test_crosses_what_linear_programs_can_cross_and_nothing_else(attack):
    model, x, y = subject()
    possible, easy = can_cross(EPS), can_cross(EPS, slack=0.1)
    assert 0 < int(easy.sum()) < len(x) - int((~possible).sum()) + 1
    broken = crossed(model, on_groups(attack)(model, x, y), y)
    assert not bool((broken & ~possible).any())
    assert int((broken & easy).sum()) >= 0.85 * int(easy.sum())


def test_a_general_border_is_crossed_by_the_same_attack():
    model, x, y = subject()
    border = HIERARCHY.border(severity=2)
    attack = on_groups(PGD(threat=Linf(EPS), steps=30), severity=2)
    broken = crossed(model, attack(model, x, y), y, border)
    assert int((broken & can_cross(EPS, slack=0.1)).sum()) >= 0.85 * int(can_cross(EPS, slack=0.1).sum())
    assert not bool((broken & ~can_cross(EPS)).any())


class Corridor(nn.Module):
    """Classes a and b of one group, c of another: a sibling is nearer along the first pixel, c along the second."""

    def forward(self, x):
        first, second = x.flatten(1)[:, 0], x.flatten(1)[:, 1]
        return torch.stack((torch.zeros_like(first), 4 * (first - 0.55), 3 * (second - 0.6)), dim=1)


def test_an_attack_on_classes_stops_at_the_nearest_mistake_which_is_in_the_group():
    model, x, y = Corridor(), torch.full((3, 1, 1, 2), 0.5), torch.zeros(3, dtype=torch.int64)
    hierarchy = hierarchy_of(("a", "b", "c"), {"group": {"x": ["a", "b"], "y": ["c"]}})
    leaf = PGD(threat=Linf(0.15), steps=10, random_start=False)
    assert model(leaf(model, x, y)).argmax(1).tolist() == [1, 1, 1]
    crossing = Hierarchical(attack=leaf, hierarchy=hierarchy)
    assert model(crossing(model, x, y)).argmax(1).tolist() == [2, 2, 2]


def test_the_view_of_sums_is_judged_on_the_classes_so_that_it_goes_on_behind_its_own_border():
    # Two classes outside together outweigh the label long before one of them is predicted.
    class Crowd(nn.Module):
        def forward(self, x):
            far = 2 * (x.flatten(1)[:, :1] - 0.6)
            return torch.cat((torch.zeros_like(far), far, far), dim=1)

    model, x, y = Crowd(), torch.full((1, 1, 1, 1), 0.5), torch.tensor([0])
    hierarchy = hierarchy_of(("a", "b", "c"), {"group": {"x": ["a"], "y": ["b", "c"]}})
    attack = Hierarchical(attack=PGD(threat=Linf(0.2), steps=10), hierarchy=hierarchy, view="sum")
    assert model(attack(model, x, y)).argmax(1).tolist() == [1]
    with pytest.raises(ValueError, match="must climb to the end"):
        Hierarchical(attack=Square(threat=Linf(0.2)), hierarchy=hierarchy, view="sum")


def test_with_a_target_it_is_the_attack_inside():
    model, x, y = smooth(), images(6), torch.arange(6) % 5
    inner = PGD(threat=Linf(0.1), steps=3)
    hierarchy = hierarchy_of(tuple("abcde"), {"group": {"x": ["a", "b"], "y": ["c", "d", "e"]}})
    target = (y + 1) % 5
    made = Hierarchical(attack=inner, hierarchy=hierarchy)(model, x, y, target=target)
    assert torch.equal(made, inner(model, x, y, target=target))


def test_examples_that_are_beyond_the_border_already_cost_a_look():
    model, x, y = subject()
    wrong = (y + 1) % 6  # mostly in another group
    counts = torch.zeros(len(x), dtype=torch.int64)
    on_groups(PGD(threat=Linf(0.01), steps=5))(Counted(model, counts), x, wrong)
    beyond = crossed(model, x, wrong)
    assert bool(beyond.any())
    assert counts[beyond].tolist() == [1] * int(beyond.sum())


def test_what_it_is():
    attack = on_groups(PGD(threat=Linf(0.1), steps=3, until_lost=False))
    traits = traits_of(attack)
    assert (traits.access, traits.axis, traits.size, traits.thorough) == ("gradients", "linf", 0.1, False)
    assert goes_to_the_end(attack)
    assert not goes_to_the_end(on_groups(PGD(threat=Linf(0.1), steps=3)))
    assert not goes_to_the_end(Square(threat=Linf(0.1)))
    assert goes_to_the_end(Targeted(attack=PGD(threat=Linf(0.1), steps=3, until_lost=False)))
    assert not goes_to_the_end(Aimed(attack=PGD(threat=Linf(0.1), steps=3), strength=1.0))


@pytest.mark.parametrize(
    ("fields", "error", "problem"),
    [
        ({"level": "grup"}, RecipeError, "level: unknown name 'grup'"),
        ({"severity": 9.0}, RecipeError, "at most 2; got 9"),
        ({"level": "group", "severity": 1.0}, ValueError, "expected a level or a severity"),
        ({"view": "mean"}, ValueError, "view: unknown name 'mean'; known: maximum, sum"),
    ],
)
def test_what_does_not_exist_is_refused_when_it_is_made(fields, error, problem):
    with pytest.raises(error, match=problem):
        on_groups(PGD(threat=Linf(0.1), steps=3), **fields)


def test_without_a_hierarchy_or_on_other_classes_it_cannot_run():
    attack = Hierarchical(attack=PGD(threat=Linf(0.1), steps=3))
    with pytest.raises(RecipeError, match="Hierarchical: expected a hierarchy; got None"):
        attack(smooth(), images(2), torch.tensor([0, 1]))
    with pytest.raises(ModelError, match="expected logits of its 6 classes"):
        on_groups(PGD(threat=Linf(0.1), steps=3))(smooth(), images(2), torch.tensor([0, 1]))
