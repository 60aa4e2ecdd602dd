"""Decoupled direction and norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.minimal import Nearest, Rows, ball, require_positive, within_eps
from holdfast.attacks.schedule import annealed
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy, towards
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.threat.l2 import L2
from holdfast.threat.shape import per_example
from holdfast.traits import Access
from holdfast.types import Classifier, Threat


@dataclass(frozen=True, kw_only=True)
class DDN:
    r"""Gradient ascent on a sphere whose radius shrinks after every success and grows after every failure.

    .. math:: \delta_{t+1} = \delta_t + \alpha_t \frac{g_t}{\|g_t\|_2}, \qquad
        \rho_{t+1} = (1 \mp \gamma)\,\rho_t, \qquad
        z_{t+1} = \mathrm{clip}\Bigl(x + \rho_{t+1} \frac{\delta_{t+1}}{\|\delta_{t+1}\|_2}\Bigr)

    :math:`g_t` is the gradient of the cross-entropy at :math:`z_t`; :math:`\alpha_t` falls from 1 to 0.01, a cosine.

    Args:
        threat: `l2`; its `eps` is the largest distance of interest.
        steps: gradient evaluations per example.
        gamma: :math:`\gamma`, how much the radius changes per step; the result is about that share from the optimum.
        init: :math:`\rho_0`.

    Reference:
        Rony et al., Decoupling Direction and Norm for Efficient Gradient-Based L2 Adversarial Attacks and Defenses,
        CVPR 2019, arXiv:1811.09600, algorithm 1. Differs: :math:`\delta_{t+1}` is the clipped perturbation, as in the
        authors' code; images are not rounded to 8 bits; where the gradient is zero nothing moves, at random neither.
    """

    access: ClassVar = Access.GRADIENTS
    minimises: ClassVar = True

    threat: Threat
    steps: int = 100
    gamma: float = 0.05
    init: float = 1.0

    def __post_init__(self) -> None:
        ball("ddn", self.threat, (L2,))
        require_positive("ddn", steps=self.steps, gamma=self.gamma, init=self.init)
        if not self.gamma < 1:
            raise ValueError(f"ddn: gamma must be below 1, got {self.gamma}")

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The nearest success found for each example; `rng` is not used."""
        return within_eps(self._search, self.threat, model, x, y, target, rng)

    def _search(self, rows: Rows) -> Tensor:
        x, aim, nearest = rows.x, rows.aim, Nearest(self.threat, rows.x)
        loss = towards(cross_entropy) if aim.targeted else cross_entropy
        z, radius = x, x.new_full((len(x),), self.init)
        for step in range(self.steps):
            _, grad, logits = input_gradient(loss, rows.model, z, aim.labels)
            reached = aim.reached(logits)
            nearest.offer(z, reached)
            delta = z - x + annealed(1.0, 0.01, step, self.steps) * self.threat.steepest(grad, z)
            radius = radius * torch.where(reached, 1 - self.gamma, 1 + self.gamma)
            z = (x + per_example(radius, x) * self.threat.steepest(delta, x)).clamp(0, 1)
        nearest.offer(z, rows.look(z)[1])
        return nearest.best_points
