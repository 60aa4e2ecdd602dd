"""Momentum iterative attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy, towards
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.traits import Access
from holdfast.types import Classifier, Threat


@dataclass(frozen=True, kw_only=True)
class Momentum:
    r"""Momentum iterative attack: steps along a decaying sum of normalised gradients.

    .. math:: g_{t+1} = \mu g_t + \frac{\nabla_z \ell(f(z_t), y)}{\|\nabla_z \ell(f(z_t), y)\|_1}, \qquad
              z_{t+1} = \Pi_{S(x)}\bigl(z_t + \tfrac{\epsilon}{T} s(g_{t+1})\bigr)

    Args:
        threat: the set :math:`S` and its geometry.
        steps: :math:`T`.
        decay: :math:`\mu`.

    Reference:
        Dong et al., Boosting Adversarial Attacks with Momentum, CVPR 2018, arXiv:1710.06081, algorithm 1.
    """

    access: ClassVar = Access.GRADIENTS

    threat: Threat
    steps: int = 10
    decay: float = 1.0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.decay < 0:
            raise ValueError(f"expected steps from 1 and decay from 0 on; got {self.steps} and {self.decay}")

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The last iterate; `rng` is not used."""
        loss, label = (cross_entropy, y) if target is None else (towards(cross_entropy), target)
        x = x.detach()
        z, sum_of_gradients = x, torch.zeros_like(x)
        for _ in range(self.steps):
            _, gradient, _ = input_gradient(loss, model, z, label)
            sum_of_gradients = self.decay * sum_of_gradients + _normalised(gradient)
            z = self.threat.project(z + self.threat.eps / self.steps * self.threat.steepest(sum_of_gradients, z), x)
        return z


def _normalised(gradient: Tensor) -> Tensor:
    """Each gradient over its sum of absolute values; a zero gradient stays zero."""
    size = gradient.abs().flatten(1).sum(1).clamp_min(torch.finfo(gradient.dtype).tiny)
    return gradient / size.view(-1, *[1] * (gradient.dim() - 1))
