"""SPSA and NES: gradients estimated from scores, climbed like true ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.search import Aim, Front, require_metric_threat
from holdfast.losses import cross_entropy, margin
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.traits import Access
from holdfast.types import Classifier, Loss, Threat

ROWS = 2048
"""How many points to ask about at once, about."""

BETAS = (0.9, 0.999)
"""Adam's decay rates."""


@dataclass(frozen=True, kw_only=True)
class SPSA:
    r"""Adam on a gradient estimated by simultaneous perturbation.

    .. math::
        g_t = \frac1n \sum_{i=1}^n \frac{\ell(z_t + \delta v_i) - \ell(z_t - \delta v_i)}{2\delta}\, v_i, \qquad
        z_{t+1} = \Pi_{S(x)}\bigl(z_t + \mathrm{Adam}(g_t)\bigr)

    with random signs :math:`v_i \in \{-1, 1\}^d`.

    Args:
        threat: the set :math:`S`.
        steps: steps; each costs two queries per pair, and one at the new point.
        pairs: :math:`n`.
        delta: :math:`\delta`.
        step_size: Adam's learning rate.
        loss: per-example loss to climb.

    Reference:
        Uesato et al., Adversarial Risk and the Dangers of Evaluating Against Weak Attacks, ICML 2018, arXiv:1802.05666,
        section 3 and appendix (there up to 4096 pairs). Differs: keeps the best point.
    """

    access: ClassVar = Access.SCORES

    threat: Threat
    steps: int = 100
    pairs: int = 64
    delta: float = 0.01
    step_size: float = 0.01
    loss: Loss = margin

    def __post_init__(self) -> None:
        require_metric_threat("spsa", self.threat)
        _check_positive(steps=self.steps, pairs=self.pairs, delta=self.delta, step_size=self.step_size)

    @torch.no_grad()
    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The best point found for each example."""
        front = Front(model, x, Aim.of(self.loss, y, target), streams(rng, x).split("spsa"), leave=True)
        front.look(x)
        z, first, second = front.x, torch.zeros_like(front.x), torch.zeros_like(front.x)
        for t in range(1, self.steps + 1):
            if not len(front):
                break
            grad = estimate(front, z, self.pairs, self.delta, signs)
            first = torch.lerp(grad, first, BETAS[0])
            second = torch.lerp(grad.square(), second, BETAS[1])
            step = first / (1 - BETAS[0] ** t) / ((second / (1 - BETAS[1] ** t)).sqrt() + 1e-8)
            z = self.threat.project(z + self.step_size * step, front.x)
            stay = _look(front, z)
            if stay is not None:
                z, first, second = z[stay], first[stay], second[stay]
        return front.best_points


@dataclass(frozen=True, kw_only=True)
class NES:
    r"""Projected gradient descent on a gradient estimated by natural evolution strategies.

    .. math::
        g_t = \frac1n \sum_{i=1}^n \frac{\ell(z_t + \sigma u_i) - \ell(z_t - \sigma u_i)}{2\sigma}\, u_i, \qquad
        z_{t+1} = \Pi_{S(x)}\bigl(z_t + \alpha\, s(g_t)\bigr)

    with normal :math:`u_i`, each with its opposite, and :math:`s` the direction in which the norm climbs.

    Args:
        threat: the set :math:`S`.
        steps: steps; each costs two queries per pair, and one at the new point.
        pairs: :math:`n`.
        sigma: :math:`\sigma`.
        step_size: :math:`\alpha`, in the threat's units; None means :math:`2.5\,\epsilon / \text{steps}`.
        loss: per-example loss to climb.

    Reference:
        Ilyas et al., Black-box Adversarial Attacks with Limited Queries and Information, ICML 2018, arXiv:1804.08598,
        algorithm 1. Differs: keeps the best point.
    """

    access: ClassVar = Access.SCORES

    threat: Threat
    steps: int = 100
    pairs: int = 25
    sigma: float = 0.001
    step_size: float | None = None
    loss: Loss = cross_entropy

    def __post_init__(self) -> None:
        require_metric_threat("nes", self.threat)
        _check_positive(steps=self.steps, pairs=self.pairs, sigma=self.sigma, step_size=self._size)

    @property
    def _size(self) -> float:
        return 2.5 * self.threat.eps / self.steps if self.step_size is None else self.step_size

    @torch.no_grad()
    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The best point found for each example."""
        front = Front(model, x, Aim.of(self.loss, y, target), streams(rng, x).split("nes"), leave=True)
        front.look(x)
        z = front.x
        for _ in range(self.steps):
            if not len(front):
                break
            grad = estimate(front, z, self.pairs, self.sigma, Streams.normal)
            z = self.threat.project(z + self._size * self.threat.ascent(grad, z), front.x)
            stay = _look(front, z)
            z = z if stay is None else z[stay]
        return front.best_points


def signs(rng: Streams, like: Tensor) -> Tensor:
    """Plus or minus one."""
    return torch.where(rng.uniform(like) < 0.5, -torch.ones_like(like), torch.ones_like(like))


def estimate(front: Front, z: Tensor, pairs: int, radius: float, draw: Callable[[Streams, Tensor], Tensor]) -> Tensor:
    """The gradient of the loss by differences across `pairs` random directions, about `ROWS` points at a time.

    The points asked about may lie outside of the threat set and the box by the radius.
    """
    grad = torch.zeros_like(z)
    for size in _pieces(pairs, max(1, ROWS // (2 * len(z)))):
        directions = torch.stack([draw(front.rng, z) for _ in range(size)])
        points = torch.cat((z + radius * directions, z - radius * directions)).flatten(0, 1)
        values = front.aim.loss(front.model(points), front.aim.labels.repeat(2 * size)).view(2, -1)
        slope = ((values[0] - values[1]) / (2 * radius)).view(size, -1)
        grad += (slope.view(*slope.shape, *[1] * (z.dim() - 1)) * directions).sum(0)
    return grad / pairs


def _pieces(count: int, size: int) -> Iterator[int]:
    for first in range(0, count, size):
        yield min(size, count - first)


def _look(front: Front, z: Tensor) -> Tensor | None:
    logits = front.model(z)
    return front.record(z, front.aim.loss(logits, front.aim.labels), logits)


def _check_positive(**numbers: float) -> None:
    for name, value in numbers.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}")
