"""The mean loss of the members of an ensemble."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attacks.stages.stage import Climb, Slope
from holdfast.ensembles.average import members_of
from holdfast.rng import Streams


@dataclass(frozen=True, kw_only=True)
class LossEnsemble:
    r"""The slope of the mean loss of an ensemble's members, instead of the loss of their mean answer.

    .. math:: \nabla_z \frac1{|S|} \sum_{m \in S} \ell(f_m(z), y)

    It comes first, and only where an `Ensemble` is attacked.

    Args:
        count: members :math:`S` that a slope takes, the next ones in turn; None for all. With 1, an ensemble costs no
            more than a network, as published for weights along a path of fine-tuning (LGV).

    Reference:
        Liu et al., Delving into Transferable Adversarial Examples and Black-box Attacks, ICLR 2017, arXiv:1611.02770.
        Gubri et al., LGV: Boosting Adversarial Example Transferability from Large Geometric Vicinity, ECCV 2022,
        arXiv:2207.13129 (one member at a time).
    """

    count: int | None = None

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise ValueError(f"count must be at least 1, got {self.count}")

    def __call__(self, slope: Slope, climb: Climb, rng: Streams) -> Slope:
        """The slope of the mean."""
        slopes = [climb.gradient_of(member) for member in members_of(climb.model, "loss_ensemble")]
        count = len(slopes) if self.count is None else min(self.count, len(slopes))
        first = 0

        def averaged(z: Tensor) -> Tensor:
            nonlocal first
            total = torch.zeros_like(z)
            for turn in range(first, first + count):
                total += slopes[turn % len(slopes)](z)
            first += count
            return total / count

        return averaged
