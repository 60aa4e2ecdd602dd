"""Every certifier keeps the contract, and broken ones are caught breaking it."""

import dataclasses

import pytest
import torch

from holdfast.certify import CERTIFIERS, Margin
from holdfast.certify.smoothing import GaussianSmoothing
from holdfast.testing import certifier as contract
from holdfast.types import Certificate
from tests.contracts import cheap


@pytest.mark.parametrize("check", contract.ALL, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", CERTIFIERS)
def test_keeps_the_contract(name, check):
    check(cheap.cheap(cheap.CERTIFIERS, name, "CERTIFIERS"))


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("check", contract.ALL[-3:], ids=lambda check: check.__name__.removeprefix("check_"))
def test_a_margin_is_sound_in_every_norm(norm, check):
    check(Margin(norm=norm))


@pytest.mark.parametrize("name", CERTIFIERS)
def test_equal_fields_mean_equal_certifiers_and_fields_cannot_be_set(name):
    one = cheap.cheap(cheap.CERTIFIERS, name, "CERTIFIERS")
    assert one == dataclasses.replace(one)
    assert one.norm in ("l1", "l2", "linf")
    assert isinstance(one.smoothed, bool)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(one, dataclasses.fields(one)[0].name, None)


class Broken:
    """A correct certifier with something broken around it."""

    norm, smoothed = "l2", True

    def __init__(self, inner=None):
        self.inner = inner or GaussianSmoothing(sigma=0.1, n=256, n0=32, alpha=0.01)
        self.smoothed = self.inner.smoothed

    def __call__(self, model, x, *, rng=None):
        return self.spoil(self.inner(model, x, rng=rng), model, x)

    def spoil(self, found, model, x):
        return found


class ClaimsMore(Broken):
    def spoil(self, found, model, x):
        return Certificate(found.prediction, 3 * found.radius, found.samples)


class ClaimsTheDistanceOfAnotherClass(Broken):
    """Forgets that two logits move: the margin over the constant alone."""

    def spoil(self, found, model, x):
        return Certificate(found.prediction, 2**0.5 * found.radius, found.samples)


class CertifiesWithoutAnAnswer(Broken):
    def spoil(self, found, model, x):
        return Certificate(torch.full_like(found.prediction, -1), found.radius, found.samples)


class RadiusInSinglePrecision(Broken):
    def spoil(self, found, model, x):
        return Certificate(found.prediction, found.radius.float(), found.samples)


class DrawsFromTheGlobalGenerator(Broken):
    def spoil(self, found, model, x):
        torch.rand(1)
        return found


class LeavesEvalModeOn(Broken):
    def spoil(self, found, model, x):
        model.eval()
        return found


class SharesNoiseInABatch(Broken):
    def __call__(self, model, x, *, rng=None):
        return self.inner(model, x, rng=None)


class CountsTooFew(Broken):
    def spoil(self, found, model, x):
        return Certificate(found.prediction, found.radius, found.samples - 32)


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (ClaimsMore(), contract.check_never_claims_more_than_the_distance_to_a_half_space),
        (ClaimsMore(), contract.check_no_attack_succeeds_inside),
        (ClaimsTheDistanceOfAnotherClass(Margin()), contract.check_no_attack_succeeds_inside),
        (
            ClaimsTheDistanceOfAnotherClass(Margin()),
            contract.check_never_claims_more_than_the_distance_to_a_half_space,
        ),
        (CertifiesWithoutAnAnswer(), contract.check_is_a_certificate),
        (RadiusInSinglePrecision(), contract.check_is_a_certificate),
        (DrawsFromTheGlobalGenerator(), contract.check_leaves_everything_alone),
        (LeavesEvalModeOn(), contract.check_leaves_everything_alone),
        (SharesNoiseInABatch(), contract.check_same_certificate_for_any_batch_size_and_order),
        (CountsTooFew(), contract.check_samples_are_what_the_model_was_asked),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Broken) else value.__name__.removeprefix("check_"),
)
def test_a_broken_certifier_is_caught(broken, check):
    with pytest.raises(AssertionError):
        check(broken)
