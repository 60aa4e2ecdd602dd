"""Variance tuning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.stages.stage import Climb, Slope
from holdfast.rng import Streams
from holdfast.threat.ball import Ball


@dataclass(frozen=True, kw_only=True)
class Variance:
    r"""The slope, corrected by how much slopes around the last point differed from the one there.

    .. math:: \nabla\ell(z_t) + v_{t-1}, \qquad
        v_t = \frac1n \sum_{i=1}^n \nabla\ell(z_t + r_i) - \nabla\ell(z_t), \quad \|r_i\| \le \beta\epsilon

    The neighbours are uniform in the ball and clipped to the box. They lie around the point where the attack is, also
    where momentum looks ahead, as in the paper; TransferAttack moves them along with the look ahead.

    Args:
        neighbours: :math:`n`, which is also how many gradients more a step takes.
        radius: :math:`\beta`, in units of the threat's.

    Reference:
        Wang, He, Enhancing the Transferability of Adversarial Attacks through Variance Tuning, CVPR 2021,
        arXiv:2103.15571, equation 3. Differs: neighbours are images.
    """

    repeats: ClassVar = True
    remembers: ClassVar = True

    neighbours: int = 5
    radius: float = 1.5

    def __post_init__(self) -> None:
        if self.neighbours < 1 or not self.radius > 0:
            raise ValueError(f"expected neighbours and a radius, got {self.neighbours} and {self.radius}")

    def __call__(self, slope: Slope, climb: Climb, rng: Streams) -> Slope:
        """The corrected slope."""
        threat: Ball = climb.threat  # type: ignore[assignment]
        variance = torch.zeros_like(climb.z)
        radius = self.radius * threat.eps

        def tuned(z: Tensor) -> Tensor:
            nonlocal variance
            here = slope(z)
            corrected = here + variance
            around = torch.zeros_like(here)
            for _ in range(self.neighbours):
                around += slope(threat.sample_within(climb.z, rng, radius))
            variance = around / self.neighbours - here
            return corrected

        return tuned
