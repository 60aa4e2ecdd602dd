"""The Euclidean ball."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.rng import Streams
from holdfast.threat.ball import level, towards_zero
from holdfast.threat.shape import checked_eps, per_example, radii, room


@dataclass(frozen=True)
class L2:
    r""":math:`\|z - x\|_2 \le \epsilon` and :math:`0 \le z_i \le 1`.

    Args:
        eps: radius in [0, 1] pixel units.
    """

    eps: float

    def __post_init__(self) -> None:
        checked_eps("l2", self.eps)

    def project(self, z: Tensor, x: Tensor) -> Tensor:
        """Shorten what is too long, then clip to the box; points inside come back unchanged."""
        return self.project_within(z, x, self.eps)

    def project_within(self, z: Tensor, x: Tensor, radius: float | Tensor) -> Tensor:
        """As `project`, with another radius, one for all or (N,)."""
        step = z - x
        length, radius = per_example(norm(step.flatten(1)), step), radii(radius, step)
        shrunk = x + step * (radius / length.clamp(min=radius))
        return torch.where(length > radius, shrunk, z).clamp(0, 1)

    def project_exact(self, z: Tensor, x: Tensor) -> Tensor:
        r"""The point of ball and box nearest to `z`.

        Its perturbation is :math:`\min(t|d_i|, s_i)\,\mathrm{sign}\,d_i` with :math:`d = z - x`, :math:`s_i` the room
        to the box and the largest :math:`t \le 1` for which it fits the ball (the stationarity conditions).
        """
        inside = self.distance(z.clamp(0, 1), x) <= self.eps
        scale = _box_scale(x, z - x, x.new_full((len(x),), self.eps)).clamp(max=1)
        return torch.where(per_example(inside, z), z, x + per_example(scale, x) * (z - x)).clamp(0, 1)

    def sample(self, x: Tensor, rng: Streams) -> Tensor:
        r"""Uniform in the ball: normal direction, radius :math:`\epsilon\,u^{1/d}`; then clipped to the box."""
        return self.sample_within(x, rng, self.eps)

    def sample_within(self, x: Tensor, rng: Streams, radius: float | Tensor) -> Tensor:
        """As `sample`, with another radius, one for all or (N,)."""
        direction = rng.normal(x)
        length = radius * rng.uniform(x.new_empty(len(x))) ** (1 / x[0].numel())
        return (x + per_example(length, x) * self.steepest(direction, x)).clamp_(0, 1)

    def steepest(self, grad: Tensor, z: Tensor) -> Tensor:
        """The gradient at unit length; zero where it is zero."""
        return grad / per_example(_nonzero(self.dual(grad)), grad)

    def ascent(self, grad: Tensor, z: Tensor) -> Tensor:
        """The steepest direction."""
        return self.steepest(grad, z)

    def extreme(self, grad: Tensor, x: Tensor) -> Tensor:
        """Along the gradient, lengthened where the box stops a coordinate: the maximiser is `clip(x + t grad)`."""
        return rescale_into_box(x, self.steepest(grad, x), x.new_full((len(x),), self.eps))

    def distance(self, z: Tensor, x: Tensor) -> Tensor:
        """Euclidean distance per example."""
        return norm((z - x).flatten(1))

    def dual(self, grad: Tensor) -> Tensor:
        """Euclidean norm per example, without underflow for the tiny gradients of confident networks."""
        flat = grad.flatten(1)
        largest = _nonzero(flat.abs().amax(1))
        return largest * norm(flat / largest[:, None])

    def rescaled(self, radius: Tensor, factor: float) -> Tensor:
        """Radii (N,) times a factor."""
        return factor * radius

    def to_hyperplane(self, x: Tensor, normal: Tensor, value: Tensor) -> Tensor:
        """Along the normal, lengthened where the box stops a coordinate: the nearest point is `clip(x + t w)`."""
        direction, far = towards_zero(normal, value)
        size = direction.abs()
        limit = (room(x.flatten(1), direction) / size).masked_fill(size == 0, torch.inf)
        step = direction * level(size.square(), limit, far)[:, None]
        return (x + step.view_as(x)).clamp_(0, 1)


def rescale_into_box(x: Tensor, direction: Tensor, radius: Tensor) -> Tensor:
    r"""The point :math:`z = \mathrm{clip}(x + \eta d)` with :math:`\|z - x\|_2 = r`, clipping taken into account.

    Where the box holds no such point in that direction, the farthest one is returned.

    Args:
        x: points in [0, 1], (N, ...).
        direction: :math:`d`, like `x`.
        radius: :math:`r`, (N,).

    Reference:
        Rauber, Bethge, Fast Differentiable Clipping-Aware Normalization and Rescaling, 2020, arXiv:2007.07677.
    """
    return (x + per_example(_box_scale(x, direction, radius), x) * direction).clamp(0, 1)


def _box_scale(x: Tensor, direction: Tensor, radius: Tensor) -> Tensor:
    r""":math:`\eta \ge 0` with :math:`\|\mathrm{clip}(x + \eta d) - x\|_2 = r`, (N,), exact by one sort.

    The squared length is piecewise linear in :math:`\eta^2`: coordinate :math:`i` grows with slope :math:`d_i^2` until
    it meets the box at :math:`\eta^2 = s_i^2 / d_i^2`. Knots and lengths at the knots are cumulative sums.
    """
    slope = direction.flatten(1).to(torch.float64).square()
    knots = room(x, direction).flatten(1).to(torch.float64).square() / slope.clamp(min=1e-300)
    knots, order = knots.masked_fill(slope == 0, torch.inf).sort(dim=1)
    slope = slope.gather(1, order)
    finite = knots.isfinite()
    knots = knots.where(finite, knots.masked_fill(~finite, 0).amax(1, keepdim=True))
    remaining = slope.flip(1).cumsum(1).flip(1)
    zero = torch.zeros_like(knots[:, :1])
    length = (remaining * knots.diff(dim=1, prepend=zero)).cumsum(1)
    wanted = radius.to(torch.float64).square()[:, None]
    first = (length < wanted).sum(1, keepdim=True).clamp(max=knots.shape[1] - 1)
    # From the knot before, not back from the one behind it: tiny radii would be lost to cancellation.
    before = torch.cat((zero, knots), dim=1).gather(1, first)
    lacking = (wanted - torch.cat((zero, length), dim=1).gather(1, first)).clamp(min=0)
    squared = before + lacking / remaining.gather(1, first).clamp(min=1e-300)
    return torch.minimum(squared, knots.gather(1, first)).sqrt().squeeze(1).to(x.dtype)


def norm(rows: Tensor) -> Tensor:
    """Euclidean length of each row."""
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1)
    return lengths


def _nonzero(norm: Tensor) -> Tensor:
    return norm.where(norm > 0, torch.ones_like(norm))
