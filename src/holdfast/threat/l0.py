"""The ball of the number of changed values."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.rng import Streams
from holdfast.threat.ball import fill, towards_zero
from holdfast.threat.shape import checked_eps, room


@dataclass(frozen=True)
class L0:
    r""":math:`\#\{i : z_i \ne x_i\} \le \epsilon` and :math:`0 \le z_i \le 1`.

    Every value of an image counts, so that a pixel of three channels counts up to three. The count is no norm: half of
    a step changes as many values as all of it, and the ball is not convex. Directions and slopes are those within the
    box, where no value changes by more than 1. An attack whose steps have a length, such as PGD, refuses this threat.

    Args:
        eps: how many values may change, a whole number.
    """

    eps: float

    def __post_init__(self) -> None:
        checked_eps("l0", self.eps)
        if self.eps != int(self.eps):
            raise ValueError(f"l0: eps must be a whole number of values, got {self.eps!r}")

    def project(self, z: Tensor, x: Tensor) -> Tensor:
        r"""The point of ball and box nearest to `z`: clip, and undo all changes but the most useful ones.

        Without a change, value :math:`i` is :math:`d_i = |z_i - x_i|` away from :math:`z_i`; with it, what the box cuts
        off, :math:`d_i - r_i`, where :math:`r_i` is the smaller of :math:`d_i` and the room to the box. The squared
        distance falls by :math:`d_i^2 - (d_i - r_i)^2 = r_i (2 d_i - r_i)`, for each value on its own, so the nearest
        point changes those for which this is largest: neither the largest :math:`d_i` nor the largest :math:`r_i`.
        """
        return self.project_within(z, x, self.eps)

    def project_within(self, z: Tensor, x: Tensor, radius: float | Tensor) -> Tensor:
        """As `project`, with another radius, one for all or (N,); fractions are rounded down."""
        clipped = z.clamp(0, 1)
        size, kept = (z - x).abs(), (clipped - x).abs()
        return _largest(kept * (2 * size - kept), clipped, x, radius)

    def project_exact(self, z: Tensor, x: Tensor) -> Tensor:
        """The same as `project`: in this ball the two coincide."""
        return self.project(z, x)

    def sample(self, x: Tensor, rng: Streams) -> Tensor:
        """Uniform in ball and box: the values to change at random, each uniform in [0, 1]."""
        return self.sample_within(x, rng, self.eps)

    def sample_within(self, x: Tensor, rng: Streams, radius: float | Tensor) -> Tensor:
        """As `sample`, with another radius, one for all or (N,)."""
        return _largest(rng.uniform(x), rng.uniform(x), x, radius)

    def steepest(self, grad: Tensor, z: Tensor) -> Tensor:
        """Move only the value that gains most, to its face of the box."""
        gain = grad.abs() * room(z, grad)
        return _largest(gain, grad.sign() * room(z, grad), torch.zeros_like(grad), 1)

    def ascent(self, grad: Tensor, z: Tensor) -> Tensor:
        """The steepest direction."""
        return self.steepest(grad, z)

    def extreme(self, grad: Tensor, x: Tensor) -> Tensor:
        """Move the values that gain most to their faces of the box."""
        face = (grad > 0).to(x.dtype).where(grad != 0, x)
        return _largest(grad.abs() * room(x, grad), face, x, self.eps)

    def distance(self, z: Tensor, x: Tensor) -> Tensor:
        """Number of changed values per example."""
        return (z != x).flatten(1).sum(1).to(x.dtype)

    def dual(self, grad: Tensor) -> Tensor:
        """Largest absolute value per example: no changed value gains more, since the box is 1 wide."""
        return grad.abs().flatten(1).amax(1)

    def rescaled(self, radius: Tensor, factor: float) -> Tensor:
        """Radii (N,) times a factor as whole numbers, rounded down, and at least one more or one less than before."""
        before = radius.floor()
        after = (factor * before).floor()
        return torch.maximum(after, before + 1) if factor > 1 else torch.minimum(after, before - 1).clamp_(min=0)

    def to_hyperplane(self, x: Tensor, normal: Tensor, value: Tensor) -> Tensor:
        """Move values in the order of their gain at the box, each at most to the box, until the function is zero."""
        direction, far = towards_zero(normal, value)
        gain = direction.abs() * room(x.flatten(1), direction)
        return fill(x, direction, far, gain.argsort(dim=1, descending=True))


def _largest(weight: Tensor, target: Tensor, base: Tensor, count: float | Tensor) -> Tensor:
    """`target` in the entries of largest weight that differ from `base`, as many as the count allows, `base` in others.

    Entries that do not differ rank last and so use up no count; equal weights rank in their order.
    """
    weight = torch.where(target != base, weight, -1).flatten(1)
    rank = weight.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    limit = count.floor()[:, None] if isinstance(count, Tensor) else int(count)
    return torch.where((rank < limit).view_as(base), target, base)
