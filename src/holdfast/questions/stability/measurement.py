r"""Stability under Gaussian noise: how far features move, and what the loss is where they move far.

.. math:: \eta(\delta) = P\bigl(\|f(x + \varepsilon) - f(x)\| \le \delta\bigr), \qquad
          \ell_{out}(\delta) = E\bigl[\ell(x + \varepsilon) \,\big|\, \|f(x + \varepsilon) - f(x)\| > \delta\bigr],
          \qquad \varepsilon \sim N(0, \sigma^2 I)

:math:`f` are the penultimate features. Features are stable where :math:`\eta` is large for small :math:`\delta`, the
loss where :math:`|\ell_{out} - \ell(x)|` is small. The noise is not clipped: what is proved of it needs it whole.
`bounds` has what follows for the curvature.

Reference:
    Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection, TMLR,
    definition 6.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.losses import cross_entropy
from holdfast.models.head import linear_head
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.types import FeatureClassifier, Loss


@dataclass(frozen=True, kw_only=True)
class Stability:
    r"""What noise does to each example; G distances :math:`\delta`.

    Args:
        inside: draws whose features stay within each distance, int64, (N, G).
        loss_outside: :math:`\ell_{out}`, mean loss of the other draws, float64, (N, G); NaN where there is none.
        change: mean of :math:`(\ell(x + \varepsilon) - \ell(x))^2`, float64, (N,).
        change_error: its standard error.
        largest_logit: largest magnitude of a logit of the image or a noisy copy of it, float64, (N,).
    """

    inside: Tensor
    loss_outside: Tensor
    change: Tensor
    change_error: Tensor
    largest_logit: Tensor


@in_evaluation_mode
@torch.no_grad()
def stability(
    model: FeatureClassifier,
    x: Tensor,
    y: Tensor,
    *,
    sigma: float,
    deltas: Sequence[float],
    draws: int = 100,
    loss: Loss = cross_entropy,
    rng: Streams | None = None,
) -> Stability:
    """Stability of features and loss at each image; costs `draws` + 1 forward passes, one draw of all images at a time.

    Args:
        model: the classifier, used in evaluation mode.
        x: images, (N, ...).
        y: labels, (N,).
        sigma: standard deviation of the noise in [0, 1] pixel units.
        deltas: distances of features.
        draws: noisy copies of each image, at least 2.
        loss: per example.
        rng: random streams of the images.
    """
    if draws < 2 or not 0 < sigma < math.inf:
        raise ValueError(f"draws must be at least 2 and sigma positive, got {draws} and {sigma}")
    if not deltas or not all(0 <= delta < math.inf for delta in deltas):
        raise ValueError(f"deltas must be numbers from 0 on, got {list(deltas)}")
    rng, limits = streams(rng, x), torch.tensor(list(deltas), dtype=torch.float64, device=x.device)
    centre, logits = features_and_logits(model, x)
    here, largest = loss(logits, y).double(), logits.abs().amax(1).double()
    inside = torch.zeros(len(x), len(limits), dtype=torch.int64, device=x.device)
    losses = torch.zeros(len(x), len(limits), dtype=torch.float64, device=x.device)
    changes = []
    for draw in range(draws):
        features, logits = features_and_logits(model, x + sigma * rng.split(f"noise {draw}").normal(x))
        distance = torch.linalg.vector_norm((features - centre).double(), dim=1)
        value, near = loss(logits, y).double(), distance[:, None] <= limits
        inside += near
        losses += torch.where(near, 0.0, value[:, None])
        changes.append((value - here).square())
        largest = torch.maximum(largest, logits.abs().amax(1).double())
    change = torch.stack(changes)
    return Stability(
        inside=inside,
        loss_outside=losses / (draws - inside),  # 0 / 0 is NaN where no draw is outside
        change=change.mean(0),
        change_error=change.std(0) / math.sqrt(draws),
        largest_logit=largest,
    )


@in_evaluation_mode
def features_and_logits(model: FeatureClassifier, x: Tensor) -> tuple[Tensor, Tensor]:
    """Penultimate features, (N, F), and logits, (N, K), in one pass."""
    head = linear_head(model, "stability")
    features = head.features(x)
    return features, head.logits(features)


def longest_row(model: object) -> float:
    r""":math:`\|W\|_{2,\infty} = \max_j \|W_j\|` of the linear head.

    Raises:
        ModelError: where the model does not show its features, or its head is not one linear layer.
    """
    weight = linear_head(model, "stability").weight.detach().double()
    return float(torch.linalg.vector_norm(weight, dim=1).max())
