"""DeepFool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.apgd_targeted import likeliest_others
from holdfast.attacks.minimal import Nearest, Rows, ball, boundary, require_positive, within_eps
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.threat.l2 import L2
from holdfast.threat.linf import Linf
from holdfast.threat.shape import per_example
from holdfast.traits import Access
from holdfast.types import Classifier, Threat

STRIDE = 1e-4
"""Added to the length of a step, as in the authors' code; without it, rounding may stop the points at the boundary."""


@dataclass(frozen=True, kw_only=True)
class DeepFool:
    r"""Goes to the nearest linearised decision boundary until the class changes.

    .. math:: r_{t+1} = r_t + \Bigl(\frac{|m(z_t)|}{\|\nabla m(z_t)\|_*} + 10^{-4}\Bigr) s(\nabla m(z_t)), \qquad
        z_{t+1} = \mathrm{clip}(x + (1 + \text{overshoot})\, r_{t+1})

    :math:`m = f_k - f_y` is zero on the boundary whose linearisation is nearest to :math:`z_t`, and :math:`s` the
    steepest direction of the norm: without clipping, a step ends just behind that linearisation.

    Quick and rough: the first success is what it returns, and nothing draws it back to `x`.

    Args:
        threat: the norm of a step, `linf` or `l2`; its `eps` is the largest distance of interest.
        steps: linearisations at most.
        candidates: boundaries considered, to the classes that are likeliest at `x`; each costs a gradient per step.
        overshoot: how far to go beyond the boundary, as a share of the perturbation.

    Reference:
        Moosavi-Dezfooli, Fawzi, Frossard, DeepFool: a Simple and Accurate Method to Fool Deep Neural Networks, CVPR
        2016, arXiv:1511.04599, algorithm 2. Differs: points are clipped to the box; with a target, :math:`m` is
        the margin between it and the likeliest other class.
    """

    access: ClassVar = Access.GRADIENTS
    minimises: ClassVar = True

    threat: Threat
    steps: int = 50
    candidates: int = 10
    overshoot: float = 0.02

    def __post_init__(self) -> None:
        ball("deepfool", self.threat, (Linf, L2))
        require_positive("deepfool", steps=self.steps, candidates=self.candidates, overshoot=self.overshoot)

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The first success for each example; `rng` is not used."""
        return within_eps(self._search, self.threat, model, x, y, target, rng)

    def _search(self, rows: Rows) -> Tensor:
        nearest = Nearest(self.threat, rows.x)
        others = None if rows.aim.targeted else likeliest_others(rows.logits, rows.aim.labels, self.candidates)
        index, z, total = torch.arange(len(rows), device=rows.x.device), rows.x, torch.zeros_like(rows.x)
        for _ in range(self.steps):
            value, grad, reached = boundary(self.threat, rows, z, others)
            if reached.any():
                nearest.offer(z, reached, index)
                stay = ~reached
                rows, z, total, index = rows[stay], z[stay], total[stay], index[stay]
                value, grad, others = value[stay], grad[stay], None if others is None else others[stay]
            if not len(rows):
                return nearest.best_points
            slope = per_example(self.threat.dual(grad), z)
            length = per_example(value.abs(), z) / slope.where(slope > 0, torch.inf) + STRIDE
            total = total + length * self.threat.steepest(grad, z)
            z = (rows.x + (1 + self.overshoot) * total).clamp(0, 1)
        nearest.offer(z, rows.look(z)[1], index)
        return nearest.best_points
