"""Random noise, and none at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from holdfast.rng import Streams, streams
from holdfast.traits import SIGMA


@dataclass(frozen=True)
class Clean:
    """The images as they are: the check that every other is compared with."""

    clean: ClassVar = True

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """The images themselves."""
        return x


@dataclass(frozen=True)
class GaussianNoise:
    r""":math:`\mathrm{clip}(x + \sigma \xi)`, :math:`\xi \sim N(0, I)`.

    Args:
        sigma: standard deviation in [0, 1] pixel units.
        variance: :math:`\sigma^2` instead; give one of the two.
        clip: whether values are clipped to [0, 1]. Certificates under noise assume that they are not.
    """

    sigma: float | None = None
    variance: float | None = None
    clip: bool = True

    def __post_init__(self) -> None:
        if (self.sigma is None) == (self.variance is None):
            raise ValueError(f"give sigma or variance, got sigma={self.sigma} and variance={self.variance}")
        if not 0 <= self.scale < math.inf:
            raise ValueError(f"the noise must have a finite size, not negative, got {self.scale}")

    @property
    def scale(self) -> float:
        """The standard deviation."""
        if self.sigma is not None:
            return self.sigma
        return math.sqrt(self.variance) if self.variance is not None and self.variance >= 0 else math.nan

    @property
    def strength(self) -> tuple[str, float]:
        """Axis and size of the check."""
        return SIGMA, self.scale

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """Noisy images, in [0, 1] if clipped."""
        noisy = streams(rng, x).normal(x).mul_(self.scale).add_(x)
        return noisy.clamp_(0, 1) if self.clip else noisy


@dataclass(frozen=True)
class UniformNoise:
    r""":math:`\mathrm{clip}(x + \epsilon u)`, :math:`u_i \sim U(-1, 1)`.

    Args:
        eps: largest change of a coordinate.
    """

    eps: float

    def __post_init__(self) -> None:
        if not 0 <= self.eps < math.inf:
            raise ValueError(f"eps must be finite and not negative, got {self.eps}")

    @property
    def strength(self) -> tuple[str, float]:
        """Axis and size of the check: noise in the cube that an attack in linf searches."""
        return "linf", self.eps

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """Noisy images, clipped to [0, 1]."""
        return streams(rng, x).uniform(x).mul_(2).sub_(1).mul_(self.eps).add_(x).clamp_(0, 1)
