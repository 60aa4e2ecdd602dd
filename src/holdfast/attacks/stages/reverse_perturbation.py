"""Flat maxima: the slope where a second attack has lowered the loss again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from holdfast.attacks.stages.stage import Climb, Slope
from holdfast.rng import Streams
from holdfast.threat.ball import Ball


@dataclass(frozen=True, kw_only=True)
class ReversePerturbation:
    r"""The slope at the least bad point nearby, so that the loss is high in a whole ball.

    .. math:: \nabla\ell(z_t + n_t), \qquad n_t \approx \arg\min_{\|n\| \le \rho\epsilon} \ell(f(z_t + n), y)

    :math:`n_t` is found by steps of :math:`2\rho\epsilon / k` from a random point.

    Args:
        radius: :math:`\rho`, in units of the threat's.
        steps: :math:`k`, which is also how many gradients more a step takes.
        start: share of the attack after which it begins.

    Reference:
        Qin et al., Boosting the Transferability of Adversarial Attacks with Reverse Adversarial Perturbation, NeurIPS
        2022, arXiv:2210.05968. Differs: steps reach across the ball instead of having the size of the attack's, and the
        loss is the attack's own.
    """

    repeats: ClassVar = True

    radius: float = 1.0
    steps: int = 8
    start: float = 0.25

    def __post_init__(self) -> None:
        if self.steps < 1 or not self.radius > 0 or not 0 <= self.start < 1:
            raise ValueError(
                f"expected steps, a radius and a start in [0, 1), got {self.steps}, {self.radius} and {self.start}"
            )

    def __call__(self, slope: Slope, climb: Climb, rng: Streams) -> Slope:
        """The slope nearby."""
        threat: Ball = climb.threat  # type: ignore[assignment]
        radius = self.radius * threat.eps

        def nearby(z: Tensor) -> Tensor:
            if climb.step < self.start * climb.steps:
                return slope(z)
            middle = z.clamp(0, 1)  # momentum may have looked ahead, out of the box
            point = threat.sample_within(middle, rng, radius)
            for _ in range(self.steps):
                step = 2 * radius / self.steps * threat.ascent(-slope(point), point)
                point = threat.project_within(point + step, middle, radius)
            return slope(point)

        return nearby
