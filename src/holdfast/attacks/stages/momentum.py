"""Momentum, and the look ahead along it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.stages.stage import Climb, Slope
from holdfast.rng import Streams
from holdfast.threat.shape import per_example
from holdfast.types import Threat


@dataclass(frozen=True, kw_only=True)
class Momentum:
    r"""A running sum of normalised slopes, which smooths the path.

    .. math:: g_{t+1} = \mu\, g_t + \frac{\nabla\ell(z_t + [\text{look ahead}]\,\mu\,\alpha\, g_t)}{\|\nabla\ell\|}

    A slope of size 1 is as long as the steps of the norm: in linf its absolute values have mean 1, as in public code
    (the papers divide by their sum, which gives the same signs and hardly any look ahead), in l2 it has Euclidean
    length 1. A slope that is zero adds nothing.

    Args:
        decay: :math:`\mu`.
        look_ahead: take the slope where the momentum alone would lead.

    Reference:
        Dong et al., Boosting Adversarial Attacks with Momentum, CVPR 2018, arXiv:1710.06081, algorithm 1.
        Lin et al., Nesterov Accelerated Gradient and Scale Invariance for Adversarial Attacks, ICLR 2020,
        arXiv:1908.06281, section 3.1 (the look ahead).
    """

    remembers: ClassVar = True

    decay: float = 1.0
    look_ahead: bool = False

    def __post_init__(self) -> None:
        if not self.decay >= 0:
            raise ValueError(f"decay must not be negative, got {self.decay}")

    def __call__(self, slope: Slope, climb: Climb, rng: Streams) -> Slope:
        """The running sum."""
        momentum = torch.zeros_like(climb.z)

        def accumulated(z: Tensor) -> Tensor:
            nonlocal momentum
            ahead = z + self.decay * climb.step_size * momentum if self.look_ahead else z
            momentum = self.decay * momentum + normalised(slope(ahead), climb.threat)
            return momentum

        return accumulated


def normalised(slope: Tensor, threat: Threat) -> Tensor:
    """The slope of each example at size 1; zero where it is zero.

    The slope that is the same everywhere and has size 1 is the unit step along it.
    """
    even = torch.ones_like(slope[:1])
    size = threat.dual(slope) / threat.dual(threat.steepest(even, even / 2))
    return slope / per_example(torch.where(size > 0, size, 1), slope)
