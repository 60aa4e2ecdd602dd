"""Transferred attacks: the point is that of the source, whatever the classifier in question says."""

import pytest
import torch
from torch import nn

from holdfast.attacks import (
    APGD,
    FGSM,
    PGD,
    Aimed,
    AutoAttack,
    EightBit,
    Square,
    Targeted,
    TargetedAPGD,
    Transfer,
    Transferred,
)
from holdfast.rng import Streams
from holdfast.threat import L2, Linf
from holdfast.wrappers import Counted

ATTACK = PGD(threat=Linf(0.1), steps=5, random_start=False, until_lost=False)


def linear(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).double().eval()


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return torch.rand(8, 3, 2, 2, dtype=torch.float64), torch.randint(3, (8,))


def test_the_point_is_the_one_found_on_the_source_and_no_gradient_of_the_model_is_used(batch):
    x, y = batch

    def wall(z):
        assert not z.requires_grad
        return torch.zeros(len(z), 3, dtype=z.dtype)

    found = Transferred(attack=ATTACK, source=linear(1))(wall, x, y)
    assert torch.equal(found, ATTACK(linear(1), x, y))


def test_on_a_linear_source_of_two_classes_it_is_the_corner_against_its_weights(batch):
    x, _ = batch
    x, y = 0.2 + 0.6 * x, torch.zeros(len(x), dtype=torch.int64)
    weight = torch.randn(2, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    found = Transferred(attack=ATTACK, source=lambda z: z.flatten(1) @ weight.T)(linear(1), x, y)
    assert torch.allclose(found - x, 0.1 * (weight[1] - weight[0]).sign().reshape(3, 2, 2).expand_as(x))


def test_the_attack_goes_to_the_end_though_the_source_has_lost_long_before(batch):
    x, y = batch
    quick = APGD(threat=L2(2.0), steps=10, until_lost=True)
    patient = APGD(threat=L2(2.0), steps=10, until_lost=False)
    rng = Streams(0, "test", len(x))
    found = Transferred(attack=quick, source=linear(1))(linear(2), x, y, rng=rng)
    assert torch.equal(found, patient(linear(1), x, y, rng=Streams(0, "test", len(x))))
    assert not torch.equal(found, quick(linear(1), x, y, rng=Streams(0, "test", len(x))))


def test_questions_to_the_source_are_counted_and_the_box_of_the_classifier_stays_shut(batch):
    x, y = batch
    counts = torch.zeros(len(x), dtype=torch.int64)
    Transferred(attack=ATTACK, source=linear(1))(Counted(linear(2), counts), x, y)
    alone = torch.zeros(len(x), dtype=torch.int64)
    ATTACK(Counted(linear(1), alone), x, y)
    assert torch.equal(counts, alone)
    assert counts.min() > 0


def test_the_recipes_form_becomes_an_attack_on_the_classifier_that_is_found():
    check = Transfer(attack=ATTACK, source="runs/a/seed-{seed}")
    assert check.threat == ATTACK.threat
    assert check.on(linear(1)).attack == ATTACK
    with pytest.raises(ValueError, match="source: expected the directory of a run or a weights file, got nothing"):
        Transfer(attack=ATTACK, source=" ")


@pytest.mark.parametrize("kind", [Square, AutoAttack, EightBit])
def test_attacks_that_leave_at_the_first_success_are_refused(kind):
    attack = EightBit(attack=ATTACK) if kind is EightBit else kind(threat=Linf(0.1))
    says = f"climb to the end; expected a transfer_loop such as mi, .*; got {kind.__name__}"
    with pytest.raises(ValueError, match=says):
        Transfer(attack=attack, source="run")
    with pytest.raises(ValueError, match=says):
        Transferred(attack=attack, source=linear(1))
    with pytest.raises(ValueError, match=says):
        Aimed(attack=Targeted(attack=attack), strength=1.0)
    Transfer(attack=Targeted(attack=FGSM(threat=Linf(0.1))), source="run")
    Aimed(attack=TargetedAPGD(threat=Linf(0.1)), strength=1.0)
