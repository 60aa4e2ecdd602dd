"""Projected gradient descent."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from holdfast.attacks.search import Aim, Front
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy
from holdfast.rng import Streams, streams
from holdfast.types import Classifier, Loss, Threat


@dataclass(frozen=True, kw_only=True)
class PGD:
    r"""Projected gradient descent with random starts.

    .. math:: z_{t+1} = \Pi_{S(x)}\bigl(z_t + \alpha\, s(\nabla_z \ell(f(z_t), y))\bigr)

    :math:`S` is the threat set and :math:`s` the direction in which its norm climbs. Over all steps and restarts the
    point of highest loss is kept.

    Args:
        threat: the set :math:`S` and its geometry.
        steps: gradient evaluations per example and restart.
        step_size: :math:`\alpha`, in the threat's units; None means :math:`2.5\,\epsilon / \text{steps}`.
        loss: per-example loss to climb.
        restarts: how often to start anew.
        random_start: start uniformly in the ball instead of at `x`.
        until_lost: an example whose attack has succeeded keeps that point and leaves the batch. Right for measuring
            accuracy; switch it off for training, where the highest loss is wanted.

    Reference:
        Madry et al., Towards Deep Learning Models Resistant to Adversarial Attacks, ICLR 2018, arXiv:1706.06083,
        section 2.1. Differs: keeps the best point, not the last.
    """

    threat: Threat
    steps: int = 40
    step_size: float | None = None
    loss: Loss = cross_entropy
    restarts: int = 1
    random_start: bool = True
    until_lost: bool = True

    def __post_init__(self) -> None:
        if self.steps < 1 or self.restarts < 1:
            raise ValueError(f"steps and restarts must be at least 1, got {self.steps} and {self.restarts}")
        if self.step_size is not None and not 0 < self.step_size < math.inf:
            raise ValueError(f"step_size must be positive and finite, got {self.step_size}")
        if self.restarts > 1 and not self.random_start:
            raise ValueError(f"{self.restarts} restarts from the same point are one; set random_start or restarts: 1")

    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The best point found for each example."""
        front = Front(model, x, Aim.of(self.loss, y, target), streams(rng, x), leave=self.until_lost)
        if self.until_lost and self.random_start:
            front.look(x)
        for restart in range(self.restarts):
            self._climb(front, f"restart {restart}")
        return front.found

    def _climb(self, front: Front, name: str) -> None:
        step_size = 2.5 * self.threat.eps / self.steps if self.step_size is None else self.step_size
        z = self.threat.sample(front.x, front.rng.split(name)) if self.random_start and len(front) else front.x
        for _ in range(self.steps):
            if not len(front):
                return
            values, grad, logits = input_gradient(front.aim.loss, front.model, z, front.aim.labels)
            stay = front.record(z, values, logits)
            if stay is not None:
                z, grad = z[stay], grad[stay]
            z = self.threat.project(z + step_size * self.threat.ascent(grad, z), front.x)
        front.look(z)
