"""Large-margin softmax: the angle between features and the row of their class counts several times."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from holdfast.losses import cross_entropy
from holdfast.models.head import LinearHead, Whole, check_linear, linear_head
from holdfast.objectives.hooks import Hooks
from holdfast.objectives.passes import Passes
from holdfast.rng import Streams
from holdfast.threat.l2 import norm
from holdfast.types import Classifier, Terms

NAME = "large_margin"


@dataclass(frozen=True, kw_only=True)
class Annealing:
    r"""From plain softmax to large margins: :math:`\lambda_t = \max(\lambda_{min}, a\,(1 + g t)^{-p})` at step t.

    The defaults are those of the official code, made for some twenty thousand steps; take a larger `gamma` for fewer.

    Args:
        base: :math:`a`; 0 for large margins from the start.
        gamma: :math:`g`.
        power: :math:`p`.
        least: :math:`\lambda_{min}`.
    """

    base: float = 1000.0
    gamma: float = 2.5e-5
    power: float = 35.0
    least: float = 0.0

    def __post_init__(self) -> None:
        for name in ("base", "gamma", "power", "least"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be finite and not negative, got {getattr(self, name)}")

    def __call__(self, step: Tensor) -> Tensor:
        """The weight of plain softmax at a step, counted from 1."""
        falling = self.base * (1 + self.gamma * step.double()).pow(-self.power)
        return falling.clamp_min(self.least)


@dataclass(frozen=True, kw_only=True)
class LargeMargin:
    r"""Cross entropy with a harder logit for the label, in place of :math:`\|W_y\| \|q\| \cos\theta`.

    .. math:: \|W_y\| \|q\| \frac{\lambda \cos\theta + \psi(\theta)}{1 + \lambda}, \qquad
        \psi(\theta) = (-1)^k \cos(m\theta) - 2k, \quad \theta \in [k\pi/m, (k + 1)\pi/m],

    with :math:`\lambda` falling step by step. The paper has no bias: that of the head, if any, is added to all logits
    unchanged, so that the margin is one of angles only. With :math:`m = 1` this is the cross entropy.

    Args:
        m: factor on the angle.
        annealing: schedule of :math:`\lambda`.

    Reference:
        Liu et al., Large-Margin Softmax Loss for Convolutional Neural Networks, ICML 2016, arXiv:1612.02295,
        equations 4 to 6 and section 4.3.
    """

    m: int = 2
    annealing: Annealing = field(default_factory=Annealing)

    passes: ClassVar[Passes] = Passes(1, 1)

    def __post_init__(self) -> None:
        if self.m < 1:
            raise ValueError(f"m must be at least 1, got {self.m}")

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of the first step; `rng` is not used."""
        return Annealed(self, linear_head(model, NAME), Whole(NAME, checked=True)).forward(model, x, y)

    @property
    def hooks(self) -> Hooks:
        """The same with a count of its steps."""
        return Hooks(start=self._start)

    def _start(self, model: nn.Module, classes: int, examples: Tensor) -> nn.Module:
        head = linear_head(model, NAME)
        check_linear(head, NAME)
        return Annealed(self, head, Whole(NAME))


class Annealed(nn.Module):
    """The objective with its state, the number of steps.

    Args:
        objective: its settings.
        head: of the network that is trained.
        whole: checks the network at the first batch.
    """

    step: Tensor

    def __init__(self, objective: LargeMargin, head: LinearHead, whole: Whole) -> None:
        super().__init__()
        self.objective, self.whole = objective, whole
        self.register_buffer("step", torch.zeros((), dtype=torch.int64, device=head.weight.device))

    def forward(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch, which counts as a step."""
        head = self.whole.head_of(model, x)
        features = head.features(x)
        self.step = self.step + 1
        plain = self.objective.annealing(self.step)
        logits = large_margin_logits(features, head.logits(features), y, head.weight, self.objective.m, plain)
        return Terms(cross_entropy(logits, y).mean(), {"annealing": plain})


def large_margin_logits(features: Tensor, logits: Tensor, y: Tensor, weight: Tensor, m: int, plain: Tensor) -> Tensor:
    r"""Logits whose entry for the label has :math:`(\lambda\cos\theta + \psi(\theta)) / (1 + \lambda)`, (N, K).

    Args:
        features: :math:`q`, (N, F).
        logits: of the head, (N, K).
        y: labels, (N,).
        weight: :math:`W`, (K, F).
        m: factor on the angle.
        plain: :math:`\lambda`.
    """
    rows = weight[y].to(features)
    length = norm(features) * norm(rows)
    cosine = (features * rows).sum(1) / length.where(length > 0, torch.ones_like(length))
    change = length * (psi(cosine, m) - cosine) / (1 + plain).to(features)
    return logits.scatter_add(1, y[:, None], change[:, None].to(logits))


def psi(cosine: Tensor, m: int) -> Tensor:
    r""":math:`(-1)^k \cos(m\theta) - 2k` of :math:`\cos\theta`: falls from 1 to 1 - 2m, without a jump.

    :math:`\cos(m\theta)` is a polynomial of :math:`\cos\theta` (Chebyshev), so that no arc cosine, whose slope is
    infinite at both ends, is needed.
    """
    ends = [math.cos(k * math.pi / m) for k in range(1, m)]
    k = sum(((cosine < end).to(cosine) for end in ends), torch.zeros_like(cosine))
    before, multiple = torch.ones_like(cosine), cosine
    for _ in range(m - 1):
        before, multiple = multiple, 2 * cosine * multiple - before
    return (1 - 2 * (k % 2)) * multiple - 2 * k
