"""The kit names the promise that a method breaks, and finds nothing wrong with sound ones."""

import re
from dataclasses import dataclass

import pytest
import torch

from holdfast.attacks import FGSM, PGD
from holdfast.certify import GaussianSmoothing, Margin
from holdfast.objectives import Noisy, Standard
from holdfast.testing import attack, check_attack, check_certifier, check_objective
from holdfast.threat import Linf
from holdfast.types import Terms
from tests.contracts import test_attacks as attacks
from tests.contracts import test_certifiers as certifiers
from tests.contracts import test_objectives as objectives


def names_the_promise(check, method, promise, name=None):
    """The kit fails with the method, the promise and how it is broken."""
    with pytest.raises(AssertionError) as caught:
        check(method)
    line = str(caught.value)
    assert line.startswith(f"{name or type(method).__name__} breaks the promise {promise} ("), line
    assert not line.endswith(": "), line


def test_sound_methods_keep_every_promise():
    check_attack(PGD(threat=Linf(0.1), steps=3))
    check_attack(FGSM(threat=Linf(0.1)), may_give_up=True)
    check_objective(Standard())
    check_objective(Noisy(sigma=0.1))
    check_certifier(Margin())


@pytest.mark.parametrize("broken", [broken for broken, _ in attacks.BROKEN], ids=lambda broken: type(broken).__name__)
def test_a_broken_attack_is_named_with_a_promise(broken):
    with pytest.raises(AssertionError, match=rf"{type(broken).__name__} breaks the promise check_\w+ \(.*\): ."):
        check_attack(broken)


@pytest.mark.parametrize(
    "broken",
    [objectives.LeavesEvalOn(), objectives.DrawsGlobally(), objectives.BackwardsItself(), objectives.Detached()],
    ids=lambda value: type(value).__name__,
)
def test_a_broken_objective_is_named_with_a_promise(broken):
    with pytest.raises(AssertionError, match=rf"{type(broken).__name__} breaks the promise check_\w+ \(.*\): ."):
        check_objective(broken)


class MovesStatistics:
    """Updates the statistics of a frozen BatchNorm."""

    def __call__(self, model, x, y, *, rng=None):
        for name, buffer in model.named_buffers():
            if "running_mean" in name:
                buffer.add_(0.1)
        return Standard()(model, x, y, rng=rng)


class Ascends:
    def __call__(self, model, x, y, *, rng=None):
        terms = Standard()(model, x, y, rng=rng)
        return Terms(terms.total.detach() * 2 - terms.total)


class TellsInfinity:
    def __call__(self, model, x, y, *, rng=None):
        return Terms(Standard()(model, x, y, rng=rng).total, {"share": torch.tensor(torch.inf)})


@pytest.mark.parametrize(
    ("check", "broken", "promise"),
    [
        (check_objective, MovesStatistics(), "check_leaves_everything_alone"),
        (check_objective, Ascends(), "check_descends"),
        (check_objective, TellsInfinity(), "check_trains"),
        (check_certifier, certifiers.ClaimsMore(), "check_never_claims_more_than_the_distance_to_a_half_space"),
        (check_certifier, certifiers.RadiusInSinglePrecision(), "check_is_a_certificate"),
        (check_certifier, certifiers.CountsTooFew(), "check_samples_are_what_the_model_was_asked"),
        (check_certifier, certifiers.LeavesEvalModeOn(), "check_leaves_everything_alone"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_promise_is_the_one_that_is_broken(check, broken, promise):
    names_the_promise(check, broken, promise)


@dataclass(frozen=True)
class Unlike:
    """No method at all."""

    def __call__(self, x):
        return x


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        (check_attack, "expected an attack; Unlike has no `threat`"),
        (check_objective, "expected an objective; Unlike takes no `rng` in its call"),
        (check_certifier, "expected a certifier; Unlike has no `norm`"),
    ],
)
def test_what_is_no_method_of_the_family_is_named(check, sentence):
    with pytest.raises(AssertionError, match=re.escape(sentence)):
        check(Unlike())


def test_promises_may_be_left_out():
    check_attack(attacks.IgnoresTheTarget(), without=(attack.check_goes_to_its_target,))
    with pytest.raises(AssertionError, match="check_goes_to_its_target"):
        check_attack(attacks.IgnoresTheTarget())


def test_the_certifier_of_noise_keeps_every_promise():
    check_certifier(GaussianSmoothing(sigma=0.1, n=256, n0=32, alpha=0.01))
