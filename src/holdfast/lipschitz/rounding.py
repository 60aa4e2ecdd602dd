r"""Rounding of float64 in sums and products, bounded once and for all.

With :math:`u = 2^{-53}`, a sum of :math:`n` products, added in any order, is off by at most
:math:`\gamma_n = n u / (1 - n u)` times the sum of their absolute values. Everything here follows from that.

Reference:
    Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, SIAM 2002, chapter 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

UNIT = 2.0**-53
"""Unit roundoff of float64."""

ELEMENTARY = 32
"""Roundings counted for one elementary function or layer without sums, with room to spare."""


def double(tensor: Tensor) -> Tensor:
    """Detached and in float64; Apple's GPUs have none, so their tensors go to the CPU."""
    tensor = tensor.detach()
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).to(torch.float64)


def gamma(terms: float) -> float:
    r""":math:`\gamma_n`: relative to the sum of absolute values."""
    return terms * UNIT / (1 - terms * UNIT)


def outward(value: float, terms: float = 4) -> float:
    """A number that is not negative, raised by more than that many roundings may have lost."""
    return value * (1 + gamma(terms))


@dataclass(frozen=True)
class Rounding:
    """How far a computed value may be from the exact one: `constant + slope * s` for an image of length s.

    Args:
        constant: for the image of zeros.
        slope: per unit of the image's length, in the norm of the bound.
    """

    constant: float = 0.0
    slope: float = 0.0

    def __mul__(self, factor: float) -> Rounding:
        return Rounding(factor * self.constant, factor * self.slope)

    def __add__(self, other: Rounding) -> Rounding:
        return Rounding(self.constant + other.constant, self.slope + other.slope)

    def at(self, lengths: Tensor) -> Tensor:
        """The bound for images of these lengths, with a hundredth added for its own rounding."""
        return 1.01 * (self.constant + self.slope * lengths)


EXACT = Rounding()
"""No rounding."""
