"""The ball of the maximum norm."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.rng import Streams
from holdfast.threat.shape import checked_eps


@dataclass(frozen=True)
class Linf:
    r""":math:`\max_i |z_i - x_i| \le \epsilon` and :math:`0 \le z_i \le 1`.

    Args:
        eps: radius in [0, 1] pixel units.
    """

    eps: float

    def __post_init__(self) -> None:
        checked_eps("linf", self.eps)

    def project(self, z: Tensor, x: Tensor) -> Tensor:
        """Clip to the ball and the box; this is the nearest point of their intersection."""
        return torch.minimum(torch.maximum(z, x - self.eps), x + self.eps).clamp_(0, 1)

    def project_exact(self, z: Tensor, x: Tensor) -> Tensor:
        """The same as `project`: in this norm the two coincide."""
        return self.project(z, x)

    def sample(self, x: Tensor, rng: Streams) -> Tensor:
        """Uniform in the cube, then clipped to the box."""
        return rng.uniform(x).mul_(2).sub_(1).mul_(self.eps).add_(x).clamp_(0, 1)

    def steepest(self, grad: Tensor, z: Tensor) -> Tensor:
        """Sign of the gradient."""
        return grad.sign()

    def extreme(self, grad: Tensor, x: Tensor) -> Tensor:
        """A full step against every coordinate, clipped to the box."""
        return (x + self.eps * grad.sign()).clamp_(0, 1)

    def distance(self, z: Tensor, x: Tensor) -> Tensor:
        """Largest absolute difference per example."""
        return (z - x).abs().flatten(1).amax(1)

    def dual(self, grad: Tensor) -> Tensor:
        """Sum of absolute values per example."""
        return grad.abs().flatten(1).sum(1)
