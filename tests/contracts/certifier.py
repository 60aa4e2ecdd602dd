"""What every certifier promises, as functions of a certifier, so that broken ones can be shown to fail them."""

import math

import torch

from holdfast.attacks import PGD
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from holdfast.types import ABSTAIN
from holdfast.wrappers import Counted, Deadline
from tests.zoo import (
    THREAT_KINDS,
    frozen_norm,
    half_space,
    half_space_distance,
    half_space_points,
    images,
    linear,
    normed,
    smooth,
)

ORDERS = {"linf": 1, "l2": 2, "l1": torch.inf}
"""Of the norm that is dual to each."""


def check_is_a_certificate(certifier, model=None, x=None):
    """A class or ABSTAIN for each image, and a radius in float64: finite, not negative, 0 where it abstains."""
    model, x = model or smooth(), images(12) if x is None else x
    found = certifier(model, x)
    assert found.prediction.shape == found.radius.shape == (len(x),)
    assert found.prediction.dtype == torch.int64
    assert found.radius.dtype == torch.float64
    assert not found.radius.requires_grad, "the radius hangs on a graph"
    assert bool((found.radius.isfinite() & (found.radius >= 0)).all())
    assert bool(((found.prediction != ABSTAIN) == (found.radius > 0)).all())
    return found


def check_leaves_everything_alone(certifier):
    """Inputs, weights, .grad, requires_grad, modes, buffers and the global random states."""
    x = images(6)
    for model in (normed(), frozen_norm()):
        for number, parameter in enumerate(model.parameters()):
            parameter.grad = torch.full_like(parameter, 0.5) if number % 2 else None
        model.convolution.bias.requires_grad_(False)
        with same_random_states(), same_module(model), same_tensors(x):
            certifier(model, x)
        attached = x.clone().requires_grad_()
        with same_module(model), same_tensors(attached):
            check_is_a_certificate(certifier, model, attached)
        assert attached.grad is None


def check_same_seed_same_certificate(certifier):
    """The same streams give the same bits, whatever the global seed; none given means seed 0 and 0, 1, 2, ..."""
    model, x = smooth(), images(6)
    first = certifier(model, x, rng=Streams(3, "a", 6))
    torch.rand(1)
    assert _same(first, certifier(model, x, rng=Streams(3, "a", 6)), 0)
    assert _same(certifier(model, x), certifier(model, x, rng=Streams(0, "", 6)), 0)


def check_same_certificate_for_any_batch_size_and_order(certifier, *, count=15):
    """Batches of 1, 7 and all, in any order, agree: predictions to the bit, radii up to rounding in float64."""
    model, x = smooth(), images(count)
    whole = certifier(model, x, rng=Streams(1, "b", count))
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    for pieces in (torch.arange(count).split(1), torch.arange(count).split(7), [shuffled]):
        for piece in pieces:
            part = certifier(model, x[piece], rng=Streams(1, "b", piece))
            assert torch.equal(part.prediction, whole.prediction[piece])
            torch.testing.assert_close(part.radius, whole.radius[piece], rtol=1e-9, atol=1e-12)
            if whole.samples is not None:
                assert torch.equal(part.samples, whole.samples[piece])


def check_works_without_gradients_around(certifier):
    """Under no_grad the result is the same."""
    model, x = smooth(), images(6)
    with torch.no_grad():
        quiet = certifier(model, x)
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
    assert _same(quiet, certifier(model, x), 0)


def check_works_in_inference_mode(certifier):
    """No certificate needs a gradient of the caller's, so that inference mode changes nothing."""
    model, x = smooth(), images(6)
    with torch.inference_mode():
        inside = certifier(model, x)
    assert _same(inside, certifier(model, x), 0)


def check_works_for_classes_and_dtypes(certifier):
    """2, 3 and 100 classes, float32 and float64."""
    for classes in (2, 3, 100):
        for dtype in (torch.float32, torch.float64):
            check_is_a_certificate(certifier, linear(classes, dtype=dtype), images(6, dtype=dtype))


def check_samples_are_what_the_model_was_asked(certifier):
    """Whoever counts through a wrapper counts the samples that the certificate tells of."""
    if certifier.smoothed:
        counts, x = torch.zeros(7, dtype=torch.int64), images(7)
        found = certifier(Counted(Deadline(smooth(), math.inf), counts), x)  # as an evaluation wraps it
        assert torch.equal(found.samples, counts), "the samples are not those that the model saw"
    else:
        assert certifier(smooth(), images(7)).samples is None


def check_never_claims_more_than_the_distance_to_a_half_space(certifier):
    """Noise that is symmetric leaves the boundary of a half-space where it is, so that the distance is that of both."""
    model = half_space()
    x, y = half_space_points(model, 40, scale=0.1)
    found = check_is_a_certificate(certifier, model, x)
    assert bool((found.radius <= half_space_distance(model, x, certifier.norm) * (1 + 1e-9)).all()), "claims too much"
    assert bool((found.radius > 0).any()), "claims nothing"
    answered = found.prediction != ABSTAIN
    assert torch.equal(found.prediction[answered], y[answered])


def check_never_claims_more_than_the_distance_to_another_class(certifier):
    """On linear classifiers of several classes, which only without noise have a known distance."""
    if certifier.smoothed:
        return
    for classes in (2, 5):
        model, x = linear(classes), images(20)
        found = check_is_a_certificate(certifier, model, x)
        with torch.no_grad():
            logits = model(x)
        rows = model.weight.detach()
        apart = torch.linalg.vector_norm(rows[:, None] - rows, ORDERS[certifier.norm], dim=2)
        away = (logits.amax(1, keepdim=True) - logits) / apart[logits.argmax(1)]
        distance = away.masked_fill(away.isnan(), torch.inf).amin(1)
        assert bool((found.radius <= distance * (1 + 1e-9)).all()), "claims too much"


def check_no_attack_succeeds_inside(certifier):
    """PGD within 0.999 of the radius of each image; on a half-space, whose smoothed classifier it is itself."""
    kind = THREAT_KINDS[certifier.norm]
    half = half_space()
    cases = [(half, half_space_points(half, 6, scale=0.1)[0])]
    cases += [] if certifier.smoothed else [(smooth(), images(6, low=0.3, high=0.7))]
    for model, x in cases:
        found = certifier(model, x)
        for image, prediction, radius in zip(x.split(1), found.prediction, found.radius.tolist(), strict=True):
            if radius > 0:
                attack = PGD(threat=kind(0.999 * radius), steps=15, step_size=radius / 4)
                z = attack(model, image, prediction[None])
                with torch.no_grad():
                    assert int(model(z).argmax(1)) == prediction, f"broken at {attack.threat.distance(z, image).item()}"


def _same(one, other, tolerance):
    close = torch.allclose(one.radius, other.radius, rtol=tolerance, atol=0)
    return close and torch.equal(one.prediction, other.prediction)


ALL = (
    check_is_a_certificate,
    check_leaves_everything_alone,
    check_same_seed_same_certificate,
    check_same_certificate_for_any_batch_size_and_order,
    check_works_without_gradients_around,
    check_works_in_inference_mode,
    check_works_for_classes_and_dtypes,
    check_samples_are_what_the_model_was_asked,
    check_never_claims_more_than_the_distance_to_a_half_space,
    check_never_claims_more_than_the_distance_to_another_class,
    check_no_attack_succeeds_inside,
)
