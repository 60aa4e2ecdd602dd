"""Copies of an image at several scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.stages.stage import Climb, Slope
from holdfast.rng import Streams


@dataclass(frozen=True, kw_only=True)
class ScaleCopies:
    r"""The mean loss of darker copies of each image, which networks tend to see alike.

    .. math:: \nabla_z \frac1m \sum_{i=0}^{m-1} \ell(f(z / 2^i), y) = \frac1m \sum_i 2^{-i}\, \nabla\ell(z / 2^i)

    Args:
        count: :math:`m`.

    Reference:
        Lin et al., ICLR 2020, arXiv:1908.06281, equation 7.
    """

    repeats: ClassVar = True

    count: int = 5

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count must be at least 1, got {self.count}")

    def __call__(self, slope: Slope, climb: Climb, rng: Streams) -> Slope:
        """The slope of the mean."""

        def averaged(z: Tensor) -> Tensor:
            total = torch.zeros_like(z)
            for i in range(self.count):
                total += slope(z / 2**i) / 2**i
            return total / self.count

        return averaged
