"""Every attack keeps the contract under every threat, and broken attacks are caught breaking it."""

import dataclasses
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from holdfast.attacks import ATTACKS, FGSM, PGD, Square
from holdfast.errors import ModelError
from holdfast.testing import attack as contract
from holdfast.threat import THREATS, Linf
from holdfast.traits import Access
from holdfast.wrappers import InCurrentModes
from tests.contracts import cheap
from tests.zoo import Masked, images, labels, linear, smooth


def instance(name, threat):
    make = cheap.cheap(cheap.ATTACKS, name, "ATTACKS")
    return make(cheap.cheap(cheap.THREATS, threat, "THREATS"))


def first_threat(name):
    return next(threat for threat in THREATS if threat not in cheap.REFUSES.get(name, ()))


PAIRS = [(name, threat) for name in ATTACKS for threat in THREATS if threat not in cheap.REFUSES.get(name, ())]


REFUSED = [(name, threat) for name, threats in cheap.REFUSES.items() for threat in sorted(threats)]


@pytest.mark.parametrize(("name", "threat"), REFUSED)
def test_a_threat_that_it_does_not_have_is_refused(name, threat):
    with pytest.raises(ValueError, match=threat):
        instance(name, threat)


@pytest.mark.filterwarnings("ignore:.*examples not attacked. no starting point")  # with few tries and no images
@pytest.mark.parametrize("check", contract.ALL, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize(("name", "threat"), PAIRS)
def test_keeps_the_contract(name, threat, check):
    if name in cheap.MAY_GIVE_UP and check in contract.SUCCEEDS:
        check(instance(name, threat), may_give_up=True)
        return
    if name in cheap.CHOOSES_ITS_TARGET and check is contract.check_never_worse_than_the_start:
        pytest.skip("it lowers the loss at its target, not at the label")
    check(instance(name, threat))


@pytest.mark.parametrize("shape", [(5,), (1,), (2, 3, 3)])
@pytest.mark.parametrize(("name", "threat"), PAIRS)
def test_takes_images_of_any_shape_and_an_empty_batch(name, threat, shape):
    model, attack = linear(3, shape), instance(name, threat)
    contract.check_stays_inside(attack, model, images(4, shape), labels(4, 3))
    empty = attack(model, images(0, shape), labels(0, 3))
    assert empty.shape == (0, *shape)


@pytest.mark.parametrize(("name", "threat"), PAIRS)
def test_corners_of_the_box_stay_in_the_box(name, threat):
    x = images(8).round()
    contract.check_stays_inside(instance(name, threat), smooth(), x, labels(8, 5))


@pytest.mark.parametrize(("name", "threat"), PAIRS)
def test_a_zero_gradient_is_no_error_and_stays_inside(name, threat):
    contract.check_stays_inside(instance(name, threat), Masked(linear(3)), images(6), labels(6, 3))


BLACK = (Access.SCORES, Access.DECISIONS)
FOLLOW_GRADIENTS = [name for name, kind in ATTACKS.items() if getattr(kind, "access", None) not in BLACK]


@pytest.mark.parametrize("name", FOLLOW_GRADIENTS)
def test_nan_gradients_are_an_error_and_never_zero(name):
    def broken(x):
        return linear(3)(x) * torch.where(x.flatten(1)[:, :1] > 0.5, torch.nan, 1.0)

    with pytest.raises(ModelError, match="NaN"):
        instance(name, first_threat(name))(broken, images(6), torch.zeros(6, dtype=torch.int64))


@pytest.mark.parametrize("name", ATTACKS)
def test_equal_fields_mean_equal_attacks_and_fields_cannot_be_set(name):
    attack = instance(name, first_threat(name))
    assert attack == instance(name, first_threat(name))
    threat = attack.threat
    assert attack != cheap.ATTACKS[name](dataclasses.replace(threat, eps=2 * threat.eps))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(attack, dataclasses.fields(attack)[0].name, None)


class Broken:
    """A correct attack with something broken around it."""

    threat = Linf(0.1)
    access = Access.GRADIENTS

    def __init__(self, inner=None):
        self.inner = inner or PGD(threat=self.threat, steps=3)

    def __call__(self, model, x, y, *, target=None, rng=None):
        return self.inner(model, x, y, target=target, rng=rng)


class ProjectsWrongly(Broken):
    """Clips the box first and steps afterwards."""

    def __call__(self, model, x, y, *, target=None, rng=None):
        z = super().__call__(model, x, y, target=target, rng=rng)
        return z + 0.05 * (z - x).sign()


class LeavesTheBall(Broken):
    def __call__(self, model, x, y, *, target=None, rng=None):
        return (x + 1.01 * (super().__call__(model, x, y, target=target, rng=rng) - x)).clamp(0, 1)


class LeavesEvalModeOn(Broken):
    def __call__(self, model, x, y, *, target=None, rng=None):
        model.eval()
        return super().__call__(model, x, y, target=target, rng=rng)


class ThawsFrozenNorm(Broken):
    """Switches everything to eval and everything back to train."""

    def __call__(self, model, x, y, *, target=None, rng=None):
        training = model.training
        model.eval()
        z = super().__call__(model, x, y, target=target, rng=rng)
        model.train(training)
        return z


class UpdatesStatistics(Broken):
    def __call__(self, model, x, y, *, target=None, rng=None):
        modes = [(module, module.training) for module in model.modules()]
        model.train()
        z = super().__call__(InCurrentModes(model), x, y, target=target, rng=rng)
        for module, training in modes:
            module.training = training
        return z


class DrawsFrom(Broken):
    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def __call__(self, model, x, y, *, target=None, rng=None):
        self.draw()
        return super().__call__(model, x, y, target=target, rng=rng)


class StartsAtGlobalRandom(Broken):
    def __call__(self, model, x, y, *, target=None, rng=None):
        return self.threat.project(x + self.threat.eps * (2 * torch.rand_like(x) - 1), x)


class TouchesGrad(Broken):
    """Differentiates with backward()."""

    def __call__(self, model, x, y, *, target=None, rng=None):
        with torch.enable_grad():
            z = x.detach().clone().requires_grad_()
            F.cross_entropy(model(z), y, reduction="sum").backward()
        return self.threat.extreme(z.grad, x.detach())


class TouchesGradOfInput(Broken):
    def __call__(self, model, x, y, *, target=None, rng=None):
        z = super().__call__(model, x, y, target=target, rng=rng)
        if x.requires_grad:
            x.requires_grad_(False)
        return z


class WritesToItsInput(Broken):
    def __call__(self, model, x, y, *, target=None, rng=None):
        z = super().__call__(model, x, y, target=target, rng=rng)
        x.detach().add_(1e-3).clamp_(0, 1)
        return z


class MeansOverTheBatch(Broken):
    """A fixed step along a gradient that is divided by the batch size."""

    def __call__(self, model, x, y, *, target=None, rng=None):
        with torch.enable_grad():
            z = x.detach().requires_grad_()
            (grad,) = torch.autograd.grad(F.cross_entropy(model(z), y), z)
        return self.threat.project(x.detach() + grad, x.detach())


class KeepsOneForAll(Broken):
    """Draws one perturbation per position in the batch instead of per example."""

    def __call__(self, model, x, y, *, target=None, rng=None):
        return super().__call__(model, x, y, target=target, rng=None)


class NeedsGradMode(Broken):
    def __call__(self, model, x, y, *, target=None, rng=None):
        return super().__call__(model, x, y, target=target, rng=rng) if torch.is_grad_enabled() else x.clone()


class ReturnsFloat32(Broken):
    def __call__(self, model, x, y, *, target=None, rng=None):
        return super().__call__(model, x, y, target=target, rng=rng).float()


class IgnoresTheTarget(Broken):
    def __call__(self, model, x, y, *, target=None, rng=None):
        return super().__call__(model, x, y, rng=rng)


class Descends(Broken):
    def __call__(self, model, x, y, *, target=None, rng=None):
        z = super().__call__(model, x, y, target=target, rng=rng).detach()
        return self.threat.project(2 * x.detach() - z, x.detach())


class HangsOnTheGraph(Broken):
    def __call__(self, model, x, y, *, target=None, rng=None):
        return super().__call__(model, x, y, target=target, rng=rng) + 0 * x


class StatesNothing(Broken):
    access = None


class LooksAtGradients(Broken):
    access = Access.SCORES


class LooksAtScores(Broken):
    access = Access.DECISIONS

    def __init__(self):
        super().__init__(Square(threat=self.threat, queries=20))


BROKEN = [
    (ProjectsWrongly(), contract.check_works_for_classes_and_dtypes),
    (LeavesTheBall(), contract.check_works_for_classes_and_dtypes),
    (ReturnsFloat32(), contract.check_works_for_classes_and_dtypes),
    (HangsOnTheGraph(), contract.check_leaves_everything_alone),
    (LeavesEvalModeOn(), contract.check_leaves_everything_alone),
    (ThawsFrozenNorm(), contract.check_leaves_everything_alone),
    (UpdatesStatistics(), contract.check_leaves_everything_alone),
    (DrawsFrom(lambda: torch.rand(1)), contract.check_leaves_everything_alone),
    (DrawsFrom(np.random.rand), contract.check_leaves_everything_alone),
    (DrawsFrom(random.random), contract.check_leaves_everything_alone),
    (TouchesGrad(), contract.check_leaves_everything_alone),
    (TouchesGradOfInput(), contract.check_leaves_everything_alone),
    (WritesToItsInput(), contract.check_leaves_everything_alone),
    (StartsAtGlobalRandom(), contract.check_same_seed_same_bits),
    (MeansOverTheBatch(), contract.check_same_outcome_for_any_batch_size),
    (KeepsOneForAll(), contract.check_same_outcome_for_any_batch_size),
    (KeepsOneForAll(), contract.check_independent_of_order),
    (NeedsGradMode(), contract.check_works_without_gradients_around),
    (IgnoresTheTarget(), contract.check_goes_to_its_target),
    (Descends(), contract.check_never_worse_than_the_start),
    (StatesNothing(), contract.check_needs_no_more_access_than_it_states),
    (LooksAtGradients(), contract.check_needs_no_more_access_than_it_states),
    (LooksAtScores(), contract.check_needs_no_more_access_than_it_states),
]


@pytest.mark.parametrize(
    ("broken", "check"), BROKEN, ids=lambda value: getattr(value, "__name__", type(value).__name__)
)
def test_a_broken_attack_is_caught(broken, check):
    with pytest.raises(AssertionError):
        check(broken)


@pytest.mark.parametrize("check", contract.ALL, ids=lambda check: check.__name__)
def test_the_attack_inside_the_broken_ones_is_sound(check):
    check(Broken())


def test_a_registered_attack_without_a_cheap_instance_is_caught():
    with pytest.raises(pytest.fail.Exception, match="'new' is in ATTACKS without a cheap instance"):
        cheap.cheap(cheap.ATTACKS, "new", "ATTACKS")


def test_other_seeds_start_elsewhere():
    from holdfast.rng import Streams

    model, x, y = smooth(), images(6), labels(6, 5)
    attack = PGD(threat=Linf(0.1), steps=1, until_lost=False)
    first, second = (attack(model, x, y, rng=Streams(seed, "", 6)) for seed in (0, 1))
    assert not torch.equal(first, second)
    assert torch.equal(*(FGSM(threat=Linf(0.1))(model, x, y, rng=Streams(seed, "", 6)) for seed in (0, 1)))
