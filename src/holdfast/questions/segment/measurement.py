r"""The loss on the way from an image to an attack's point, and what Taylor expansions make of it.

.. math:: \ell(t) = \ell(x + t\delta), \qquad \ell_1(t) = \ell(a) + (t - a)\,\ell'(a), \qquad
    \ell_2(t) = \ell_1(t) + \tfrac12 (t - a)^2\, \ell''(a)

with :math:`\delta = z - x`, :math:`\ell' = \langle\nabla\ell, \delta\rangle` and :math:`\ell'' =
\delta^\top \nabla^2\ell\, \delta`, both exact. Regularisers such as FOAR and SOAR stand on these expansions. A network
that is sure of an image has :math:`\ell' \approx \ell'' \approx 0` there, and the expansion says nothing of the loss at
the other end; from :math:`a > 0` on it may. Seen by its exact derivatives a ReLU network bends only through the loss.

Reference:
    Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, section 3.3.4.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.gradients import expansion
from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.types import Classifier, Loss


@dataclass(frozen=True)
class Segment:
    r"""The loss along the segment of each example, float64.

    Args:
        places: :math:`t`, (P,), from 0 at the image to 1 at the other end.
        around: :math:`a`, where the expansions are made.
        loss: (N, P).
        first: the expansion of first order, (N, P).
        second: of second order, (N, P).
        slope: :math:`\ell'(a)`, (N,).
        bend: :math:`\ell''(a)`, (N,).
    """

    places: Tensor
    around: float
    loss: Tensor
    first: Tensor
    second: Tensor
    slope: Tensor
    bend: Tensor


@in_evaluation_mode
def loss_along_segment(
    model: Classifier,
    x: Tensor,
    z: Tensor,
    y: Tensor,
    *,
    points: int = 33,
    around: float = 0.0,
    loss: Loss = cross_entropy,
    batch: int = 1024,
) -> Segment:
    """Loss and both expansions at equally spaced points, ends included.

    Args:
        model: the classifier, used in evaluation mode.
        x: images, (N, ...).
        z: the other ends, like `x`.
        y: labels, (N,).
        points: of the segment.
        around: where the expansions are made, from 0 at the image to 1 at the other end.
        loss: per example.
        batch: rows of a forward pass.
    """
    if points < 2:
        raise ValueError(f"points must be at least 2, got {points}")
    if not 0 <= around <= 1:
        raise ValueError(f"around must lie in [0, 1], got {around}")
    x, delta = x.detach(), (z - x).detach()
    here = expansion(loss, model, x + around * delta, y)
    slope = (here.gradient * delta).flatten(1).double().sum(1)
    bend = (here.product(delta) * delta).flatten(1).double().sum(1)
    places = torch.linspace(0, 1, points, dtype=torch.float64, device=x.device)
    away = places - around
    first = here.values.double()[:, None] + slope[:, None] * away
    second = first + 0.5 * bend[:, None] * away.square()
    values = _losses(loss, model, x, delta, y, places, max(1, batch // max(1, len(x))))
    return Segment(places, around, values, first, second, slope, bend)


@torch.no_grad()
def _losses(
    loss: Loss, model: Classifier, x: Tensor, delta: Tensor, y: Tensor, places: Tensor, together: int
) -> Tensor:
    """Losses at every place of every segment, (N, P)."""
    values = []
    for some in torch.split(places.to(x), together):
        shares = some.view(-1, *[1] * x.dim())
        logits = model((x[None] + shares * delta[None]).flatten(0, 1))
        labels = y.repeat(len(some), *[1] * (y.dim() - 1))
        values.append(loss(logits, labels).double().view(len(some), len(x)))
    return torch.cat(values).T


def image_numbers(x: Tensor) -> Tensor:
    """A number made of the pixels of each image, int64, (N,): the same in every run and precision."""
    images = x.detach().to("cpu", torch.float32).flatten(1).numpy()
    digests = [hashlib.blake2b(image.tobytes(), digest_size=6).digest() for image in images]  # exact in JSON
    return torch.tensor([int.from_bytes(digest, "big") for digest in digests])


@dataclass(frozen=True)
class TaylorErrors:
    r"""How wrong the expansions are, (N,) each, float64.

    Args:
        first: :math:`\max_t |\ell(t) - \ell_1(t)|`.
        second: :math:`\max_t |\ell(t) - \ell_2(t)|`.
        first_end: :math:`\ell_1(1) - \ell(1)`, negative where the expansion promises too little.
        second_end: :math:`\ell_2(1) - \ell(1)`.
        first_reach: the largest :math:`t` up to which the first order has been within the tolerance since
            :math:`a`; below :math:`a` nothing is asked.
        second_reach: of the second order.
    """

    first: Tensor
    second: Tensor
    first_end: Tensor
    second_end: Tensor
    first_reach: Tensor
    second_reach: Tensor


def taylor_errors(segment: Segment, *, tolerance: float = 0.1) -> TaylorErrors:
    """Errors of the two expansions along the segment.

    Args:
        segment: of each example.
        tolerance: error that is still called right, in units of the loss.
    """
    if not tolerance > 0:
        raise ValueError(f"tolerance must be positive, got {tolerance}")
    first, second = segment.first - segment.loss, segment.second - segment.loss
    return TaylorErrors(
        first.abs().amax(1),
        second.abs().amax(1),
        first[:, -1],
        second[:, -1],
        _reach(segment, first, tolerance),
        _reach(segment, second, tolerance),
    )


def _reach(segment: Segment, error: Tensor, tolerance: float) -> Tensor:
    """The last place before the first that is too wrong; where the expansion is made, if the next one is already."""
    wrong = (error.abs() > tolerance) & (segment.places >= segment.around)
    right = (segment.places >= segment.around) & (wrong.cumsum(1) == 0)
    return torch.where(right, segment.places, segment.around).amax(1)
