"""Projected gradient descent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from holdfast.attacks.schedule import StepSchedule, constant
from holdfast.attacks.search import Aim, Front, require_metric_threat
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.traits import Access
from holdfast.types import Classifier, Loss, Threat


@dataclass(frozen=True, kw_only=True)
class PGD:
    r"""Projected gradient descent with random starts.

    .. math:: z_{t+1} = \Pi_{S(x)}\bigl(z_t + \alpha\, c(t / T)\, s(\nabla_z \ell(f(z_t), y))\bigr)

    :math:`S` is the threat set, :math:`s` the direction in which its norm climbs and :math:`c` the schedule, 1 unless
    another is asked for. Over all steps and restarts the point of highest loss is kept.

    Args:
        threat: the set :math:`S` and its geometry.
        steps: :math:`T`, gradient evaluations per example and restart.
        step_size: :math:`\alpha`, in the threat's units; None means that all steps together are :math:`2.5\,\epsilon`
            long: each :math:`2.5\,\epsilon / T` where the schedule is constant.
        loss: per-example loss to climb.
        restarts: how often to start anew.
        random_start: start uniformly in the ball instead of at `x`.
        until_lost: an example whose attack has succeeded keeps that point and leaves the batch. Right for measuring
            accuracy; switch it off for training, where the highest loss is wanted.
        schedule: :math:`c`, how the step size changes along a run.

    Reference:
        Madry et al., Towards Deep Learning Models Resistant to Adversarial Attacks, ICLR 2018, arXiv:1706.06083,
        section 2.1. Differs: keeps the best point, not the last.
    """

    access: ClassVar = Access.GRADIENTS
    persistent: ClassVar = True

    threat: Threat
    steps: int = 40
    step_size: float | None = None
    loss: Loss = cross_entropy
    restarts: int = 1
    random_start: bool = True
    until_lost: bool = True
    schedule: StepSchedule = constant

    def __post_init__(self) -> None:
        require_metric_threat("pgd", self.threat)
        if self.steps < 1 or self.restarts < 1:
            raise ValueError(f"steps and restarts must be at least 1, got {self.steps} and {self.restarts}")
        if self.step_size is not None and not 0 < self.step_size < math.inf:
            raise ValueError(f"step_size must be positive and finite, got {self.step_size}")
        if self.restarts > 1 and not self.random_start:
            raise ValueError(f"{self.restarts} restarts from the same point are one; set random_start or restarts: 1")

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The best point found for each example."""
        front = Front(model, x, Aim.of(self.loss, y, target), streams(rng, x), leave=self.until_lost)
        if self.until_lost and self.random_start:
            front.look(x)
        for restart in range(self.restarts):
            if len(front):
                rng = front.rng.split(f"restart {restart}")
                start = self.threat.sample(front.x, rng) if self.random_start else front.x
                climb(front, self.threat, start, self.lengths)
        return front.best_points

    @property
    def lengths(self) -> list[float]:
        """Of each step."""
        factors = [self.schedule(step / self.steps) for step in range(self.steps)]
        step_size = 2.5 * self.threat.eps / sum(factors) if self.step_size is None else self.step_size
        return [step_size * factor for factor in factors]


def climb(front: Front, threat: Threat, start: Tensor, lengths: Sequence[float]) -> None:
    """Steps of these lengths from a point of each example that is left; the last point is only looked at."""
    z = start
    for length in lengths:
        if not len(front):
            return
        values, grad, logits = input_gradient(front.aim.loss, front.model, z, front.aim.labels)
        stay = front.record(z, values, logits)
        if stay is not None:
            z, grad = z[stay], grad[stay]
        z = threat.project(z + length * threat.ascent(grad, z), front.x)
    front.look(z)
