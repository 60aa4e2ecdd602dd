"""What every certifier promises, as functions of a certifier; `check_certifier` tries all of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.attacks.pgd import PGD
from holdfast.rng import Streams
from holdfast.testing.networks import (
    DUALS,
    THREAT_KINDS,
    frozen_norm,
    half_space,
    half_space_distance,
    half_space_points,
    images,
    linear,
    normed,
    smooth,
)  # fmt: skip
from holdfast.testing.trial import require_kind, same_values, try_promises, with_gradients
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from holdfast.types import ABSTAIN, Certificate, Certifier, Classifier
from holdfast.wrappers import Counted, Deadline


def check_certifier(certifier: Certifier, *, without: Collection[Callable[..., Any]] = ()) -> None:
    """Try every promise on one certifier, on small networks and images.

    Args:
        certifier: the certifier, with fields that make it quick.
        without: promises of this module that it does not make.

    Raises:
        AssertionError: naming the first promise that it breaks.
    """
    try_promises(Certifier, certifier, ALL, without=without)


def check_is_a_certificate(
    certifier: Certifier, model: Classifier | None = None, x: Tensor | None = None
) -> Certificate:
    """A class or ABSTAIN for each image, and a radius in float64: finite, not negative, 0 where it abstains."""
    model, x = model or smooth(), images(12) if x is None else x
    certificate = certifier(model, x)
    require_kind(certificate, Certificate, "a Certificate")
    require_kind(certificate.prediction, Tensor, "a tensor of predictions")
    require_kind(certificate.radius, Tensor, "a tensor of radii")
    shapes = tuple(certificate.prediction.shape), tuple(certificate.radius.shape)
    assert shapes == ((len(x),),) * 2, f"shapes {shapes} for {len(x)} images"
    assert certificate.prediction.dtype == torch.int64, f"predictions are {certificate.prediction.dtype}"
    assert certificate.radius.dtype == torch.float64, f"the radius is {certificate.radius.dtype}"
    assert not certificate.radius.requires_grad, "the radius still requires a gradient"
    assert bool((certificate.radius.isfinite() & (certificate.radius >= 0)).all()), "a radius is negative or not finite"
    answered = certificate.prediction != ABSTAIN
    assert torch.equal(answered, certificate.radius > 0), "a radius without a prediction, or the other way round"
    return certificate


def check_leaves_everything_alone(certifier: Certifier) -> None:
    """Inputs, weights, .grad, requires_grad, modes, buffers and the global random states."""
    x = images(6)
    for model in map(with_gradients, (normed(), frozen_norm())):
        with same_random_states(), same_module(model), same_tensors(x):
            certifier(model, x)
        attached = x.clone().requires_grad_()
        with same_module(model), same_tensors(attached):
            check_is_a_certificate(certifier, model, attached)
        assert attached.grad is None, ".grad of the images changed"


def check_same_seed_same_certificate(certifier: Certifier) -> None:
    """The same streams give the same bits, whatever the global seed; none given means seed 0 and 0, 1, 2, ..."""
    model, x = smooth(), images(6)
    first = certifier(model, x, rng=Streams(3, "a", 6))
    torch.rand(1)
    assert _same(first, certifier(model, x, rng=Streams(3, "a", 6))), "another certificate for the same streams"
    none = certifier(model, x)
    assert _same(none, certifier(model, x, rng=Streams(0, "", 6))), "another certificate without streams than of seed 0"


def check_same_certificate_for_any_batch_size_and_order(certifier: Certifier, *, count: int = 15) -> None:
    """Batches of 1, 7 and all, in any order, agree: predictions to the bit, radii up to rounding in float64."""
    model, x = smooth(), images(count)
    whole = certifier(model, x, rng=Streams(1, "b", count))
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    for pieces in (*(torch.split(torch.arange(count), size) for size in (1, 7)), [shuffled]):
        for piece in pieces:
            part = certifier(model, x[piece], rng=Streams(1, "b", piece))
            assert torch.equal(part.prediction, whole.prediction[piece]), "predictions depend on the batch"
            same_values(part.radius, whole.radius[piece], "radii of two batches", relative=1e-9, absolute=1e-12)
            if whole.samples is not None:
                assert part.samples is not None, "samples depend on the batch"
                assert torch.equal(part.samples, whole.samples[piece]), "samples depend on the batch"


def check_works_without_gradients_around(certifier: Certifier) -> None:
    """Under no_grad the result is the same."""
    model, x = smooth(), images(6)
    with torch.no_grad():
        quiet = certifier(model, x)
        assert not torch.is_grad_enabled(), "gradients are on afterwards"
    assert torch.is_grad_enabled(), "gradients are off afterwards"
    assert _same(quiet, certifier(model, x)), "another certificate under no_grad"


def check_works_in_inference_mode(certifier: Certifier) -> None:
    """No certificate needs a gradient of the caller's, so that inference mode changes nothing."""
    model, x = smooth(), images(6)
    with torch.inference_mode():
        inside = certifier(model, x)
    assert _same(inside, certifier(model, x)), "another certificate in inference mode"


def check_works_for_classes_and_dtypes(certifier: Certifier) -> None:
    """2, 3 and 100 classes, float32 and float64."""
    for classes in (2, 3, 100):
        for dtype in (torch.float32, torch.float64):
            check_is_a_certificate(certifier, linear(classes, dtype=dtype), images(6, dtype=dtype))


def check_samples_are_what_the_model_was_asked(certifier: Certifier) -> None:
    """A counting wrapper counts as many samples as the certificate reports."""
    if not certifier.smoothed:
        assert certifier(smooth(), images(7)).samples is None, "samples without noise"
        return
    counts, x = torch.zeros(7, dtype=torch.int64), images(7)
    certificate = certifier(Counted(Deadline(smooth(), math.inf), counts), x)  # as an evaluation wraps it
    assert certificate.samples is not None, "no samples are stated"
    assert torch.equal(certificate.samples, counts), "the samples are not those that the model saw"


def check_never_claims_more_than_the_distance_to_a_half_space(certifier: Certifier) -> None:
    """Noise that is symmetric leaves the boundary of a half-space where it is, so that the distance is that of both."""
    model = half_space()
    x, y = half_space_points(model, 40, scale=0.1)
    certificate = check_is_a_certificate(certifier, model, x)
    assert bool((certificate.radius <= half_space_distance(model, x, certifier.norm) * (1 + 1e-9)).all()), (
        "a radius exceeds the distance to the boundary"
    )
    assert bool((certificate.radius > 0).any()), "no radius is positive"
    answered = certificate.prediction != ABSTAIN
    assert torch.equal(certificate.prediction[answered], y[answered]), "certifies the wrong class"


def check_never_claims_more_than_the_distance_to_another_class(certifier: Certifier) -> None:
    """On linear classifiers of several classes, which only without noise have a known distance."""
    if certifier.smoothed:
        return
    for classes in (2, 5):
        model, x = linear(classes), images(20)
        certificate = check_is_a_certificate(certifier, model, x)
        with torch.no_grad():
            logits = model(x)
        rows = model.weight.detach()
        apart = torch.linalg.vector_norm(rows[:, None] - rows, DUALS[certifier.norm], dim=2)
        away = (logits.amax(1, keepdim=True) - logits) / apart[logits.argmax(1)]
        distance = away.masked_fill(away.isnan(), torch.inf).amin(1)
        assert bool((certificate.radius <= distance * (1 + 1e-9)).all()), (
            "a radius exceeds the distance to the boundary"
        )


def check_no_attack_succeeds_inside(certifier: Certifier) -> None:
    """PGD within 0.999 of the radius of each image; on a half-space, whose smoothed classifier it is itself."""
    kind = THREAT_KINDS[certifier.norm]
    half = half_space()
    cases: list[tuple[nn.Module, Tensor]] = [(half, half_space_points(half, 6, scale=0.1)[0])]
    cases += [] if certifier.smoothed else [(smooth(), images(6, low=0.3, high=0.7))]
    for model, x in cases:
        certificate = certifier(model, x)
        for image, prediction, radius in zip(
            torch.split(x, 1), certificate.prediction, certificate.radius.tolist(), strict=True
        ):
            if radius > 0:
                attack = PGD(threat=kind(0.999 * radius), steps=15, step_size=radius / 4)
                z = attack(model, image, prediction[None])
                with torch.no_grad():
                    assert int(model(z).argmax(1)) == prediction, f"broken at {attack.threat.distance(z, image).item()}"


def _same(one: Certificate, other: Certificate) -> bool:
    return torch.equal(one.radius, other.radius) and torch.equal(one.prediction, other.prediction)


ALL: tuple[Callable[..., Any], ...] = (
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
