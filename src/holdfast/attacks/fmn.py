"""The fast minimum-norm attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.minimal import Nearest, Rows, ball, require_positive, within_eps
from holdfast.attacks.schedule import annealed
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.threat.l2 import L2
from holdfast.traits import Access
from holdfast.types import Classifier, Threat


@dataclass(frozen=True, kw_only=True)
class FMN:
    r"""Gradient steps on the margin, projected on a ball whose radius follows the boundary.

    .. math:: z_{t+1} = \Pi_{\rho_{t+1}}\Bigl(z_t + \alpha_t \frac{\nabla m(z_t)}{\|\nabla m(z_t)\|_2}\Bigr), \qquad
        \rho_{t+1} = \begin{cases}
            (1 + \gamma_t)\bigl(\rho_t + |m(z_t)| / \|\nabla m(z_t)\|_*\bigr) & \text{before the first success} \\
            \min\bigl((1 - \gamma_t)\,\rho_t,\ \rho^\star\bigr) & \text{at a success} \\
            (1 + \gamma_t)\,\rho_t & \text{at a failure}
        \end{cases}

    :math:`m` is the margin, :math:`\rho^\star` the smallest distance of a success; :math:`\alpha_t` and
    :math:`\gamma_t` fall along a cosine. In :math:`\ell_0` radii are whole numbers that change by at least 1, and the
    estimate of the first steps is what no point can beat: as if every value could move by 1 with the steepest slope.

    Args:
        threat: the norm to minimise; its `eps` is the largest distance of interest.
        steps: gradient evaluations per example.
        step_size: :math:`\alpha_0`, Euclidean in every norm; it ends at a hundredth of that. In :math:`\ell_0` longer
            steps do better: the longer, the more the projection keeps the values that gain most at the box.
        gamma: :math:`\gamma_0`, how much the radius changes per step; it ends at `last_gamma`.
        last_gamma: :math:`\gamma_T`.

    Reference:
        Pintor, Roli, Brendel, Biggio, Fast Minimum-norm Adversarial Attacks through Adaptive Norm Constraints, NeurIPS
        2021, arXiv:2102.12827, algorithm 1. Differs: before the first success the paper has
        :math:`\|z_t - x\|` for :math:`\rho_t` and no :math:`1 + \gamma_t`. Then the iterate comes to the boundary from
        inside and need not cross it: not on a linear model, and less where the box cuts its steps short. In
        :math:`\ell_0` the reference starts with a radius of 1 and no estimate, keeps the largest changes and clips
        them after; here the projection on ball and box is exact.
    """

    access: ClassVar = Access.GRADIENTS
    minimises: ClassVar = True

    threat: Threat
    steps: int = 100
    step_size: float = 1.0
    gamma: float = 0.05
    last_gamma: float = 1e-4

    def __post_init__(self) -> None:
        ball("fmn", self.threat)
        require_positive(
            "fmn", steps=self.steps, step_size=self.step_size, gamma=self.gamma, last_gamma=self.last_gamma
        )
        if not self.gamma < 1:
            raise ValueError(f"fmn: gamma must be below 1, got {self.gamma}")

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The nearest success found for each example; `rng` is not used."""
        return within_eps(self._search, self.threat, model, x, y, target, rng)

    def _search(self, rows: Rows) -> Tensor:
        norm, nearest, x = ball("fmn", self.threat), Nearest(self.threat, rows.x), rows.x
        z, radius = x, torch.zeros_like(nearest.distance)
        for step in range(self.steps):
            value, grad, reached = rows.differentiate(z)
            nearest.offer(z, reached)
            gamma = annealed(self.gamma, self.last_gamma, step, self.steps)
            slope = norm.dual(grad)
            missing = torch.where((slope > 0) & nearest.distance.isinf(), value.abs() / slope, 0)
            grown, shrunk = norm.rescaled(radius + missing, 1 + gamma), norm.rescaled(radius, 1 - gamma)
            radius = torch.where(reached, torch.minimum(shrunk, nearest.distance), grown)
            step_size = annealed(self.step_size, self.step_size / 100, step, self.steps)
            z = norm.project_within(z + step_size * L2(1.0).steepest(grad, z), x, radius)
        nearest.offer(z, rows.look(z)[1])
        return nearest.best_points
