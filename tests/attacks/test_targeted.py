import pytest
import torch

from holdfast.attacks import FGSM, PGD, Targeted
from holdfast.attacks.targeted import choose_targets
from holdfast.rng import Streams
from holdfast.threat import Linf
from tests.zoo import images, labels, linear


@pytest.mark.parametrize("rule", ["next", "least_likely", "random"])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_target_is_never_the_label(rule, classes):
    x, y = images(200), labels(200, classes)
    target = choose_targets(rule, linear(classes), x, y, Streams(0, "", 200))
    assert target.dtype == torch.int64
    assert bool(((target >= 0) & (target < classes)).all())
    assert bool((target != y).all())


def test_rules_by_hand():
    model, x, y = linear(4), images(50), labels(50, 4)
    rng = Streams(0, "", 50)
    assert torch.equal(choose_targets("next", model, x, y, rng), (y + 1) % 4)
    ranked = model(x).argsort(1)
    expected = torch.where(ranked[:, 0] == y, ranked[:, 1], ranked[:, 0])
    assert torch.equal(choose_targets("least_likely", model, x, y, rng), expected)


def test_random_targets_belong_to_their_example_and_take_every_other_class():
    model, x = linear(5), images(2000)
    y = torch.full((2000,), 2)
    target = choose_targets("random", model, x, y, Streams(0, "", 2000))
    counts = target.bincount(minlength=5)
    assert counts[2] == 0
    assert bool((counts[[0, 1, 3, 4]] > 400).all())
    rows = torch.tensor([9, 4])
    assert torch.equal(choose_targets("random", model, x[rows], y[rows], Streams(0, "", rows)), target[rows])


def test_is_the_attack_with_that_target():
    model, x, y = linear(4), images(10), labels(10, 4)
    attack = PGD(threat=Linf(0.1), steps=3)
    aimed = Targeted(attack=attack, at="next")
    assert torch.equal(aimed(model, x, y), attack(model, x, y, target=(y + 1) % 4))
    assert torch.equal(aimed(model, x, y, target=y), attack(model, x, y, target=y))
    assert aimed.threat == Linf(0.1)


def test_reaches_its_targets_when_the_budget_is_large():
    model, x, y = linear(4), images(10), labels(10, 4)
    z = Targeted(attack=PGD(threat=Linf(1.0), steps=50), at="least_likely")(model, x, y)
    target = choose_targets("least_likely", model, x, y, Streams(0, "", 10))
    assert torch.equal(model(z).argmax(1), target)
    assert Targeted(attack=FGSM(threat=Linf(0.1))).at == "next"
