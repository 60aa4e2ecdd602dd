"""The ball of the maximum norm."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.rng import Streams
from holdfast.threat.ball import level, towards_zero
from holdfast.threat.shape import checked_eps, radii, room


@dataclass(frozen=True)
class Linf:
    r""":math:`\max_i |z_i - x_i| \le \epsilon` and :math:`0 \le z_i \le 1`.

    Args:
        eps: radius in [0, 1] pixel units, at most 1, where the ball holds every image.
    """

    eps: float

    def __post_init__(self) -> None:
        checked_eps("linf", self.eps)
        if self.eps > 1:
            raise ValueError(
                f"linf: eps must be at most 1, since images lie in [0, 1]; got {self.eps:g}; 8 grey levels are 8/255"
            )

    def project(self, z: Tensor, x: Tensor) -> Tensor:
        """Clip to the ball and the box; this is the nearest point of their intersection."""
        return self.project_within(z, x, self.eps)

    def project_within(self, z: Tensor, x: Tensor, radius: float | Tensor) -> Tensor:
        """As `project`, with another radius, one for all or (N,)."""
        radius = radii(radius, x)
        return torch.minimum(torch.maximum(z, x - radius), x + radius).clamp_(0, 1)

    def project_exact(self, z: Tensor, x: Tensor) -> Tensor:
        """The same as `project`: in this norm the two coincide."""
        return self.project(z, x)

    def sample(self, x: Tensor, rng: Streams) -> Tensor:
        """Uniform in the cube, then clipped to the box."""
        return self.sample_within(x, rng, self.eps)

    def sample_within(self, x: Tensor, rng: Streams, radius: float | Tensor) -> Tensor:
        """As `sample`, with another radius, one for all or (N,)."""
        return rng.uniform(x).mul_(2).sub_(1).mul_(radii(radius, x)).add_(x).clamp_(0, 1)

    def steepest(self, grad: Tensor, z: Tensor) -> Tensor:
        """Sign of the gradient."""
        return grad.sign()

    def ascent(self, grad: Tensor, z: Tensor) -> Tensor:
        """The steepest direction."""
        return self.steepest(grad, z)

    def extreme(self, grad: Tensor, x: Tensor) -> Tensor:
        """A full step along the sign of the gradient, clipped to the box."""
        return (x + self.eps * grad.sign()).clamp_(0, 1)

    def distance(self, z: Tensor, x: Tensor) -> Tensor:
        """Largest absolute difference per example."""
        return (z - x).abs().flatten(1).amax(1)

    def dual(self, grad: Tensor) -> Tensor:
        """Sum of absolute values per example."""
        return grad.abs().flatten(1).sum(1)

    def rescaled(self, radius: Tensor, factor: float) -> Tensor:
        """Radii (N,) times a factor."""
        return factor * radius

    def to_hyperplane(self, x: Tensor, normal: Tensor, value: Tensor) -> Tensor:
        """Move every coordinate by the same distance, or as far as the box allows."""
        direction, far = towards_zero(normal, value)
        limit = room(x.flatten(1), direction)
        step = torch.minimum(limit, level(direction.abs(), limit, far)[:, None])
        return (x + (step * direction.sign()).view_as(x)).clamp_(0, 1)
