r"""Smoothed robustness analysis: the worst-case average loss over a region, under noise.

.. math:: \tilde T(x) = \max_{z \in \Omega(x)} E_{\xi}\, T(z + \sigma\xi)

A region of one point gives the average case, noise of zero the worst case, and the 0-1 loss under Gaussian noise the
error of randomized smoothing. A classifier is smoothed robust at :math:`x` where :math:`\tilde T(x) < \Gamma`.

Reference:
    Crespo, Teramae, Smoothed Robustness Analysis, TMLR, theorem 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from holdfast.gradients import input_gradient
from holdfast.losses import margin
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.types import Classifier, Loss, Threat


@dataclass(frozen=True)
class Criterion:
    r"""A loss for which a small mean says that the classifier is right on average (condition 1 of the paper).

    Args:
        loss: :math:`T`, per example.
        gamma: :math:`\Gamma`: where the mean loss is below, the right class has more than half of the noise.
        ascent: what the search climbs instead, where the loss has no slope.
    """

    loss: Loss
    gamma: float
    ascent: Loss | None = None


def zero_one(logits: Tensor, y: Tensor) -> Tensor:
    """1 where the prediction is wrong, else 0."""
    return (logits.argmax(1) != y).to(logits.dtype)


CRITERIA: dict[str, Criterion] = {
    "zero_one": Criterion(zero_one, 0.5, ascent=margin),
    "margin": Criterion(margin, 0.0),
}
r"""The 0-1 loss meets condition 1 for every noise. The margin does so where the logits are jointly Gaussian under the
noise (the paper's proposition 3 claims more and is false: docs/certificates.md)."""


@dataclass(frozen=True)
class Analysis:
    """Worst-case average losses of a batch.

    Args:
        value: estimate of the worst-case average loss, (N,): a lower bound in expectation, as a search may miss
            the worst.
        point: where it was found, like the images.
        safe: where the value is below the criterion's constant.
    """

    value: Tensor
    point: Tensor
    safe: Tensor


@in_evaluation_mode
def sra(
    model: Classifier,
    x: Tensor,
    y: Tensor,
    *,
    criterion: Criterion = CRITERIA["margin"],
    sigma: float,
    region: Threat | None,
    steps: int = 20,
    draws: int = 64,
    rng: Streams | None = None,
) -> Analysis:
    """Search the region for the worst-case average loss.

    Projected gradient ascent on the mean over fixed draws of the noise; the point found is then judged with as many
    fresh draws, so that the search cannot profit from the luck of its own.

    Args:
        model: the classifier, used in evaluation mode.
        x: images, (N, ...).
        y: labels, (N,).
        criterion: the loss and its constant.
        sigma: standard deviation of Gaussian noise, added without clipping; 0 for none.
        region: where to search around each image; None for the image alone.
        steps: of the search.
        draws: noisy copies of each point.
        rng: random streams of the images.
    """
    if not (sigma >= 0 and steps >= 0 and draws >= 1):
        raise ValueError(f"sigma and steps must not be negative and draws at least 1, got {sigma}, {steps} and {draws}")
    rng, draws = streams(rng, x), draws if sigma else 1
    search, judge = (_noise(x, sigma, draws, rng.split(purpose)) for purpose in ("search", "judge"))
    climb = _averaged(criterion.ascent or criterion.loss, draws)
    z = best = x
    if region is not None and region.eps > 0 and steps:
        highest = torch.full((len(x),), -torch.inf, dtype=x.dtype, device=x.device)
        for step in range(steps + 1):
            value, grad, _ = input_gradient(climb, lambda points: model(_around(points, search)), z, y)
            higher = value > highest
            highest, best = torch.where(higher, value, highest), _where(higher, z, best)
            size = 2.5 * region.eps / steps * (1 - step / (steps + 1))
            z = region.project(z + size * region.ascent(grad, z), x)
    with torch.no_grad():
        value = _averaged(criterion.loss, draws)(model(_around(best, judge)), y)
    return Analysis(value, best, value < criterion.gamma)


@in_evaluation_mode
def sra_map(
    model: Classifier,
    x: Tensor,
    y: Tensor,
    *,
    eps: Sequence[float],
    sigma: Sequence[float],
    region: Threat,
    criterion: Criterion = CRITERIA["margin"],
    steps: int = 20,
    draws: int = 64,
    rng: Streams | None = None,
) -> tuple[Tensor, Tensor]:
    """Values and safety by `sra` for every size of the region and deviation of the noise, (N, E, S) each.

    Args:
        model: the classifier.
        x: images, (N, ...).
        y: labels, (N,).
        eps: sizes of the region; 0 for the image alone.
        sigma: deviations of the noise; 0 for none.
        region: its geometry; its own size is not used.
        criterion: the loss and its constant.
        steps: of the search.
        draws: noisy copies of each point.
        rng: random streams of the images.
    """
    resized: Any = replace
    regions = [resized(region, eps=size) if size else None for size in eps]
    options: Any = {"criterion": criterion, "steps": steps, "draws": draws, "rng": streams(rng, x)}
    results = [sra(model, x, y, sigma=one, region=around, **options) for around in regions for one in sigma]
    value, safe = (torch.stack(values, 1) for values in ([r.value for r in results], [r.safe for r in results]))
    shape = (len(x), len(eps), len(sigma))
    return value.view(shape), safe.view(shape)


def _noise(x: Tensor, sigma: float, draws: int, rng: Streams) -> Tensor:
    """Noise for every draw and image, (draws, N, ...)."""
    return sigma * torch.stack([rng.split(f"draw {draw}").normal(x) for draw in range(draws)])


def _around(z: Tensor, noise: Tensor) -> Tensor:
    """All noisy copies in one batch."""
    return (z + noise).flatten(0, 1)


def _averaged(loss: Loss, draws: int) -> Loss:
    """The mean of a loss over the copies of each example."""

    def mean(logits: Tensor, y: Tensor) -> Tensor:
        return loss(logits, y.repeat(draws)).view(draws, -1).mean(0)

    return mean


def _where(mask: Tensor, one: Tensor, other: Tensor) -> Tensor:
    return torch.where(mask.view(-1, *[1] * (one.dim() - 1)), one, other)
