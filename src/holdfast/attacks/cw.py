"""The attacks of Carlini and Wagner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.minimal import Nearest, Rows, ball, require_positive, within_eps
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.threat.l2 import L2
from holdfast.threat.linf import Linf
from holdfast.threat.shape import per_example
from holdfast.traits import Access
from holdfast.types import Classifier, Threat

Penalty = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Perturbations (N, ...) to a price of each (N,) and its gradient."""

INSIDE = 0.999999
"""The change of variables starts this near to the faces of the box; at a face itself it is infinite."""


@dataclass(frozen=True, kw_only=True)
class CW:
    r"""Adam on distance plus margin, with a search for the weight between the two.

    .. math:: \min_w \|z - x\|_2^2 + c \max(\kappa - m(z), 0), \qquad z = \tfrac12(\tanh w + 1)

    :math:`m` is the margin, positive at a success. :math:`c` is found by bisection: less after a success, more (ten
    times, until there has been one) after a failure. Slow, and the reference for what is near.

    Args:
        threat: `l2`; its `eps` is the largest distance of interest.
        steps: gradient evaluations per example and search.
        searches: values of :math:`c` tried.
        step_size: of Adam, in :math:`w`.
        constant: the first :math:`c`.
        confidence: :math:`\kappa`, the margin a success must have.
        early_abort: an example stops a search when its objective has not fallen over a tenth of the steps.

    Reference:
        Carlini, Wagner, Towards Evaluating the Robustness of Neural Networks, S&P 2017, arXiv:1608.04644, section V.
        Differs: 1000 steps instead of 10,000; stopping and Adam's moments are of each example and not of the batch.
    """

    access: ClassVar = Access.GRADIENTS
    minimises: ClassVar = True

    threat: Threat
    steps: int = 1000
    searches: int = 9
    step_size: float = 0.01
    constant: float = 1e-3
    confidence: float = 0.0
    early_abort: bool = True

    def __post_init__(self) -> None:
        ball("cw", self.threat, (L2,))
        require_positive(
            "cw", steps=self.steps, searches=self.searches, step_size=self.step_size, constant=self.constant
        )
        if not self.confidence >= 0:
            raise ValueError(f"cw: confidence must not be negative, got {self.confidence}")

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The nearest success found for each example; `rng` is not used."""
        return within_eps(self._search, self.threat, model, x, y, target, rng)

    def _search(self, rows: Rows) -> Tensor:
        nearest = Nearest(self.threat, rows.x)
        c = torch.full_like(nearest.distance, self.constant)
        low, high = torch.zeros_like(c), torch.full_like(c, torch.inf)
        for _ in range(self.searches):
            succeeded = self._descend(rows, c, nearest)
            low, high = torch.where(succeeded, low, c), torch.where(succeeded, c, high)
            c = torch.where(high.isfinite(), (low + high) / 2, 10 * c)
        return nearest.best_points

    def _descend(self, rows: Rows, c: Tensor, nearest: Nearest) -> Tensor:
        """Minimise for one :math:`c` from `x`; which examples came to a success."""
        succeeded, last = torch.zeros_like(c, dtype=torch.bool), torch.full_like(c, torch.inf)
        index = torch.arange(len(rows), device=c.device)
        adam = Adam.at(torch.atanh((2 * rows.x - 1) * INSIDE))
        for step in range(1, self.steps + 1):
            z = (torch.tanh(adam.point) + 1) / 2
            objective, reached, grad = priced(rows, z, c, self.confidence, squared)
            nearest.offer(z, reached, index)
            succeeded[index] |= reached
            adam = adam.step(grad * 2 * z * (1 - z), self.step_size)  # dz/dw is 2 z (1 - z)
            if self.early_abort and step % max(1, self.steps // 10) == 0:
                stay = objective < 0.9999 * last
                index, rows, c, last, adam = index[stay], rows[stay], c[stay], objective[stay], adam[stay]
                if not len(rows):
                    break
        return succeeded


@dataclass(frozen=True, kw_only=True)
class CWLinf:
    r"""Adam on what exceeds a bound, plus margin, with a bound that shrinks after every success.

    .. math:: \min_{z \in [0, 1]^d} \sum_i \max(|z_i - x_i| - \tau, 0) + c \max(\kappa - m(z), 0)

    The maximum norm itself would only move one coordinate per step. A success nearer than :math:`\tau` lowers it to 0.9
    of the distance; a failure doubles :math:`c`, and an example whose :math:`c` has become larger than `largest` is
    done. Each round goes on from the nearest success.

    Args:
        threat: `linf`; its `eps` is the largest distance of interest, and the first :math:`\tau`.
        steps: gradient evaluations per example and round; a round ends at its first success nearer than :math:`\tau`.
        rounds: rounds at most.
        step_size: of Adam, in pixel units.
        constant: the first :math:`c`.
        largest: the largest :math:`c`.
        confidence: :math:`\kappa`, the margin a success must have.

    Reference:
        Carlini, Wagner, S&P 2017, arXiv:1608.04644, section VI.C. Differs: :math:`\tau` starts at eps instead of 1;
        points are clipped to the box instead of changing variables, where pixels at 0 and 1 hardly move.
    """

    access: ClassVar = Access.GRADIENTS
    minimises: ClassVar = True

    threat: Threat
    steps: int = 1000
    rounds: int = 100
    step_size: float = 0.005
    constant: float = 1e-5
    largest: float = 20.0
    confidence: float = 0.0

    def __post_init__(self) -> None:
        ball("cw_linf", self.threat, (Linf,))
        sizes = {"step_size": self.step_size, "constant": self.constant, "largest": self.largest}
        require_positive("cw_linf", steps=self.steps, rounds=self.rounds, **sizes)
        if not self.confidence >= 0:
            raise ValueError(f"cw_linf: confidence must not be negative, got {self.confidence}")

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The nearest success found for each example; `rng` is not used."""
        return within_eps(self._search, self.threat, model, x, y, target, rng)

    def _search(self, rows: Rows) -> Tensor:
        nearest, index = Nearest(self.threat, rows.x), torch.arange(len(rows), device=rows.x.device)
        c = torch.full_like(nearest.distance, self.constant)
        tau = torch.full_like(c, self.threat.eps)
        for _ in range(self.rounds):
            self._descend(rows[index], c[index], tau[index], nearest, index)
            succeeded = nearest.distance <= tau
            tau = torch.where(succeeded, 0.9 * nearest.distance, tau)
            c = torch.where(succeeded, c, 2 * c)
            index = (c <= self.largest).nonzero()[:, 0]
            if not len(index):
                break
        return nearest.best_points

    def _descend(self, rows: Rows, c: Tensor, tau: Tensor, nearest: Nearest, index: Tensor) -> None:
        adam = Adam.at(nearest.best_points[index])
        for _ in range(self.steps):
            z = adam.point.clamp(0, 1)
            _, reached, grad = priced(rows, z, c, self.confidence, beyond(tau))
            nearest.offer(z, reached, index)
            adam = replace(adam, point=z).step(grad, self.step_size)
            stay = nearest.distance[index] > tau
            if not stay.all():
                index, rows, c, tau, adam = index[stay], rows[stay], c[stay], tau[stay], adam[stay]
            if not len(rows):
                return


def squared(move: Tensor) -> tuple[Tensor, Tensor]:
    """Squared Euclidean length and its gradient."""
    return move.square().flatten(1).sum(1), 2 * move


def beyond(tau: Tensor) -> Penalty:
    r""":math:`\sum_i \max(|d_i| - \tau, 0)` and its gradient."""

    def penalty(move: Tensor) -> tuple[Tensor, Tensor]:
        excess = move.abs() - per_example(tau, move)
        return excess.clamp(min=0).flatten(1).sum(1), move.sign() * (excess > 0)

    return penalty


def priced(rows: Rows, z: Tensor, c: Tensor, confidence: float, penalty: Penalty) -> tuple[Tensor, Tensor, Tensor]:
    """The objective at `z`, where that is a success with the confidence asked for, and the objective's gradient."""
    value, grad, reached = rows.differentiate(z)
    price, slope = penalty(z - rows.x)
    short = (confidence - value).clamp(min=0)
    weight = per_example(c * (short > 0), z)
    return price + c * short, reached & (value >= confidence), slope - weight * grad


@dataclass(frozen=True)
class Adam:
    """A point on its way down, each example with moments of its own.

    Reference:
        Kingma, Ba, Adam: A Method for Stochastic Optimization, ICLR 2015, arXiv:1412.6980, algorithm 1.
    """

    point: Tensor
    first: Tensor
    second: Tensor
    steps: int

    @classmethod
    def at(cls, point: Tensor) -> Adam:
        """Start at a point."""
        return cls(point, torch.zeros_like(point), torch.zeros_like(point), 0)

    def step(self, grad: Tensor, step_size: float) -> Adam:
        """One step against the gradient."""
        steps = self.steps + 1
        first, second = 0.9 * self.first + 0.1 * grad, 0.999 * self.second + 0.001 * grad.square()
        unbiased, scale = first / (1 - 0.9**steps), (second / (1 - 0.999**steps)).sqrt() + 1e-8
        return Adam(self.point - step_size * unbiased / scale, first, second, steps)

    def __getitem__(self, selection: Tensor) -> Adam:
        return Adam(self.point[selection], self.first[selection], self.second[selection], self.steps)
