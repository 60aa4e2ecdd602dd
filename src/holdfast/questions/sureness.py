r"""How sure a classifier is at images, at random points near them, and after one step of PGD.

.. math:: \frac1N \sum_n \max_i P(x_n)_i

for the probability of the likeliest class, with that of the true class and the share of right answers beside it: sure
and right is not the same at attacked points. A network that is sure of everything has a loss that is flat wherever a
gradient could start, which may be masking; but an honest network may be sure, and one trained against attacks is less
sure, so that no number here is good or bad by itself.

Reference:
    Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, section 3.3.4, table 3.1. It does
    not say how far the random points and the step go.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.objectives.start import pgd1
from holdfast.rng import Streams, streams
from holdfast.types import Classifier, Loss, Threat


@dataclass(frozen=True)
class Sureness:
    """Answers at one point of each example, (N,) each.

    Args:
        likeliest: probability of the likeliest class, float64.
        true: probability of the true class, float64.
        right: whether the two are the same class.
    """

    likeliest: Tensor
    true: Tensor
    right: Tensor


@dataclass(frozen=True)
class Confidences:
    """How sure the classifier is at three kinds of points.

    Args:
        clean: the images.
        random: random points of the threat.
        pgd1: points after one step of PGD.
    """

    clean: Sureness
    random: Sureness
    pgd1: Sureness


@in_evaluation_mode
def confidences(
    model: Classifier, x: Tensor, y: Tensor, *, threat: Threat, loss: Loss = cross_entropy, rng: Streams | None = None
) -> Confidences:
    """How sure the classifier is around each image.

    Args:
        model: the classifier, used in evaluation mode.
        x: images, (N, ...).
        y: labels, (N,).
        threat: where the random points lie and how far the one step of PGD goes.
        loss: what the step climbs.
        rng: random streams of the images; points within another radius are the same up to their distance.
    """
    rng, x = streams(rng, x), x.detach()
    moved = pgd1(threat, loss, model, x, y, rng.split("pgd1"))
    return Confidences(*(sureness(model, z, y) for z in (x, threat.sample(x, rng.split("random")), moved)))


@in_evaluation_mode
@torch.no_grad()
def sureness(model: Classifier, z: Tensor, y: Tensor) -> Sureness:
    """Of the answers at `z`."""
    logits = model(z)
    probabilities = logits.double().softmax(1)
    true = probabilities.gather(1, y[:, None])[:, 0]
    return Sureness(probabilities.amax(1), true, logits.argmax(1) == y)
