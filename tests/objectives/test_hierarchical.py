"""Losses on the levels of a hierarchy: limits, by hand, and training that takes another group for its enemy."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.attacks import PGD, Hierarchical, HierarchicalPGD
from holdfast.errors import ModelError, RecipeError
from holdfast.hierarchy import hierarchy_of, with_hierarchy
from holdfast.losses import cross_entropy
from holdfast.objectives import Adversarial, HierarchicalCrossEntropy, SeverityLabels
from holdfast.objectives.hierarchical import severity_labels
from holdfast.objectives.passes import Passes
from holdfast.threat import Linf
from holdfast.wrappers import Counted
from tests.zoo import images, labels, linear

LEVELS = {"group": {"x": ["a", "c"], "y": ["b"], "z": ["d", "e"]}, "area": {"v": ["a", "b", "c"], "w": ["d", "e"]}}
HIERARCHY = hierarchy_of(tuple("abcde"), LEVELS)
X, Y = images(12), labels(12, 5)


def hxe(**fields):
    return HierarchicalCrossEntropy(**{"hierarchy": HIERARCHY, **fields})


@given(st.integers(0, 1000))
def test_without_a_discount_it_is_the_cross_entropy(seed):
    logits = torch.randn(12, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    terms = hxe(alpha=0.0)(lambda x: logits, X, Y)
    torch.testing.assert_close(terms.total, cross_entropy(logits, Y).mean(), rtol=1e-12, atol=1e-12)


def test_by_hand():
    shares = torch.tensor([[0.4, 0.2, 0.1, 0.2, 0.1]], dtype=torch.float64)
    terms = hxe(alpha=0.7)(lambda x: shares.log(), images(1), torch.tensor([0]))
    expected = {"class": -math.log(0.4 / 0.5), "group": -math.log(0.5 / 0.7), "area": -math.log(0.7)}
    assert {name: part.item() for name, part in terms.parts.items()} == pytest.approx(expected, rel=1e-12)
    weighted = math.exp(-1.4) * expected["class"] + math.exp(-0.7) * expected["group"] + expected["area"]
    assert terms.total.item() == pytest.approx(weighted, rel=1e-12)


def test_with_a_large_discount_only_the_coarsest_level_counts():
    model = linear(5, dtype=torch.float64)
    x = X.double()
    terms = hxe(alpha=40.0)(model, x, Y)
    shares = model(x).softmax(1)
    areas = torch.stack((shares[:, :3].sum(1), shares[:, 3:].sum(1)), dim=1)
    of = torch.tensor([0, 0, 0, 1, 1])
    torch.testing.assert_close(terms.total, -areas.log().gather(1, of[Y][:, None]).mean())


def test_the_loss_is_taken_at_the_point_that_the_attack_on_groups_finds():
    model = linear(5)
    attack = Hierarchical(attack=PGD(threat=Linf(0.1), steps=4, until_lost=False), hierarchy=HIERARCHY)
    z = attack(model, X, Y)
    torch.testing.assert_close(hxe(attack=attack)(model, X, Y).total, hxe()(model, z, Y).total)
    assert hxe(attack=attack)(model, X, Y).total.item() > hxe()(model, X, Y).total.item()


@pytest.mark.parametrize("kind", [HierarchicalCrossEntropy, SeverityLabels])
def test_the_attack_goes_to_its_end_and_costs_its_passes(kind):
    objective = kind(attack=PGD(threat=Linf(0.1), steps=4))
    assert objective.attack.until_lost is False
    assert objective.passes == Passes(6, 5)
    assert kind().passes == Passes(1, 1)
    assert kind(attack=Hierarchical(attack=PGD(threat=Linf(0.1), steps=4))).attack.attack.until_lost is False


@pytest.mark.parametrize(
    "attack",
    [HierarchicalPGD(threat=Linf(0.1), steps=4, targets="random"), Hierarchical(attack=PGD(threat=Linf(0.1), steps=4))],
    ids=["random target", "view"],
)
def test_adversarial_training_costs_what_its_attack_makes_of_every_example(attack):
    objective = with_hierarchy(Adversarial(attack=attack), HIERARCHY)
    forward, backward = (torch.zeros(12, dtype=torch.int64) for _ in range(2))
    objective.attack(Counted(linear(5), forward, gradients=backward), X, Y)
    stated = objective.passes
    assert (forward + 1).tolist() == [stated.forward] * 12
    assert (backward + 1).tolist() == [stated.backward] * 12
    assert Adversarial(attack=HierarchicalPGD(threat=Linf(0.1), steps=4)).passes is None


def test_the_loss_at_attacked_points_costs_a_step_more_than_the_attack():
    attack = Hierarchical(attack=PGD(threat=Linf(0.1), steps=2))
    assert HierarchicalCrossEntropy(attack=attack).passes == Adversarial(attack=attack).passes == Passes(4, 3)


def test_labels_give_more_to_what_costs_less():
    shares = severity_labels(HIERARCHY, 2.0)  # a: c costs 1, b costs 2, d and e cost 3
    row = [math.exp(-2 * cost / 3) for cost in (0, 2, 1, 3, 3)]
    assert shares[0].tolist() == pytest.approx([one / sum(row) for one in row], rel=1e-12)
    torch.testing.assert_close(shares.sum(1), torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close(severity_labels(HIERARCHY, 500.0), torch.eye(5, dtype=torch.float64))


def test_severity_labels_far_from_soft_are_the_cross_entropy():
    model = linear(5)
    terms = SeverityLabels(beta=500.0, hierarchy=HIERARCHY)(model, X, Y)
    torch.testing.assert_close(terms.total, cross_entropy(model(X), Y).mean())


def test_adversarial_training_with_random_targets_outside_keeps_each_point_it_finds():
    model, attack = linear(5), HierarchicalPGD(threat=Linf(0.1), steps=3, targets="random", hierarchy=HIERARCHY)
    objective = Adversarial(attack=attack)
    assert objective.attack.until_lost is False
    z = objective.attack(model, X, Y)
    assert bool((z != X).flatten(1).any(1).all())
    torch.testing.assert_close(objective(model, X, Y).total, cross_entropy(model(z), Y).mean())


def test_an_objective_takes_the_hierarchy_of_the_data_also_in_its_attack():
    objective = HierarchicalCrossEntropy(attack=Hierarchical(attack=PGD(threat=Linf(0.1), steps=2)))
    bound = with_hierarchy(objective, HIERARCHY)
    assert bound.hierarchy == HIERARCHY
    assert bound.attack.hierarchy == HIERARCHY
    for method in (objective, Adversarial(attack=objective.attack)):
        with pytest.raises(RecipeError, match="expected data with a hierarchy"):
            with_hierarchy(method, None)


@pytest.mark.parametrize("kind", [HierarchicalCrossEntropy, SeverityLabels])
def test_what_cannot_be_is_refused(kind):
    with pytest.raises(RecipeError, match="expected a hierarchy; got None"):
        kind()(linear(5), X, Y)
    with pytest.raises(ModelError, match="expected logits of its 5 classes"):
        kind(hierarchy=HIERARCHY)(linear(4), X, Y % 4)
    with pytest.raises(ValueError, match="must be finite and not negative"):
        kind(**{"alpha" if kind is HierarchicalCrossEntropy else "beta": -1.0})
