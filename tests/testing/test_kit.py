"""The kit names the promise that a method breaks, and finds nothing wrong with sound ones."""

import re
from dataclasses import dataclass

import pytest
import torch

from holdfast.attacks import FGSM, PGD
from holdfast.certify import GaussianSmoothing, Margin
from holdfast.data import checked
from holdfast.losses import cross_entropy
from holdfast.objectives import Noisy, Standard
from holdfast.questions.presenting import answered, quartile_table
from holdfast.questions.question import Needs
from holdfast.testing import attack, check_attack, check_certifier, check_objective, check_question
from holdfast.testing.networks import images, labels, smooth
from holdfast.threat import Linf
from holdfast.traits import Access
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
        (check_objective, "expected an objective; Unlike: its call does not accept `rng`"),
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


class Returns:
    """A method of any family that returns what a function returns."""

    threat, access = Linf(0.1), Access.GRADIENTS
    norm, smoothed = "l2", False

    def __init__(self, make, access=Access.GRADIENTS):
        self.make, self.access = make, access


class ReturnsFromAttack(Returns):
    def __call__(self, model, x, y, *, target=None, rng=None):
        return self.make(model, x, y)


class ReturnsFromObjective(Returns):
    def __call__(self, model, x, y, *, rng=None):
        return self.make(model, x, y)


class ReturnsFromCertifier(Returns):
    def __call__(self, model, x, *, rng=None):
        return self.make(model, x, None)


def raising(model, x, y):
    raise TypeError("no such thing")


@pytest.mark.parametrize(
    ("check", "kind"),
    [
        (check_attack, ReturnsFromAttack),
        (check_objective, ReturnsFromObjective),
        (check_certifier, ReturnsFromCertifier),
    ],
)
@pytest.mark.parametrize(
    ("make", "how"),
    [
        (lambda model, x, y: None, r"expected .*; got None$"),
        (lambda model, x, y: (x, y), r"expected .*; got tuple$"),
        (raising, r"raised TypeError: no such thing$"),
    ],
    ids=["none", "tuple", "raises"],
)
def test_whatever_a_method_does_the_promise_is_named(check, kind, make, how):
    with pytest.raises(AssertionError, match=rf"^{kind.__name__} breaks the promise check_\w+ \(.*\): .*{how}"):
        check(kind(make))


def signed(model, x, y):
    """One signed step of autograd, as people write it."""
    z = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(cross_entropy(model(z), y).sum(), z)
    return (x.detach() + 0.1 * gradient.sign()).clamp(0, 1)


def test_an_attack_by_autograd_keeps_every_promise():
    check_attack(ReturnsFromAttack(signed), without=(attack.check_goes_to_its_target,))


@pytest.mark.parametrize("access", [Access.NOTHING, Access.SCORES, Access.DECISIONS])
def test_an_attack_that_takes_gradients_and_does_not_say_so_is_named(access):
    names_the_promise(check_attack, ReturnsFromAttack(signed, access), "check_needs_no_more_access_than_it_states")


@dataclass(frozen=True)
class Asks:
    """The sum of the logits."""

    title = "Sum"
    columns = {"sum": "the sum"}  # noqa: RUF012
    needs = Needs.NETWORK

    def measure(self, model, x, y, *, rng):
        return {"sum": model(x).detach().sum(1)}

    @staticmethod
    def present(answers):
        return iter([quartile_table(answers, "sum", "Sum")] if answered(answers) else [])


@dataclass(frozen=True)
class MeasuresAnother(Asks):
    """The sum of the logits."""

    def measure(self, model, x, y, *, rng):
        return {"total": model(x).detach().sum(1)}


@dataclass(frozen=True)
class MeasuresNothing(Asks):
    """The sum of the logits."""

    def measure(self, model, x, y, *, rng):
        return None


@dataclass(frozen=True)
class Measureless:
    """The sum of the logits."""

    title, needs, present = "Sum", Needs.NETWORK, staticmethod(Asks.present)


def ask(question):
    check_question(question, smooth(), checked(images(8), labels(8, 5), tuple("abcde"), "images"))


def test_a_sound_question_keeps_every_promise():
    ask(Asks())


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (MeasuresAnother(), r"check_names_its_columns \(.*expected measure to return its columns, sum; got total"),
        (MeasuresNothing(), r"check_names_its_columns \(.*expected measure to return its columns, sum; got NoneType"),
    ],
)
def test_a_broken_question_is_named_with_a_promise(broken, line):
    with pytest.raises(AssertionError, match=rf"^{type(broken).__name__} breaks the promise {line}"):
        ask(broken)


def test_what_is_no_question_is_named():
    with pytest.raises(AssertionError, match="expected a question; PGD has no `present`"):
        ask(PGD(threat=Linf(0.1)))


def test_a_question_without_a_measurement_is_named():
    with pytest.raises(AssertionError, match="expected a question; Measureless has no `measure`"):
        ask(Measureless())
