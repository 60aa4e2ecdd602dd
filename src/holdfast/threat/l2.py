"""The Euclidean ball."""

from __future__ import annotations

import math
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
        """Shorten perturbations that are too long, then clip to the box; points inside come back unchanged."""
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
        scale = _exact(x, z - x, x.new_full((len(x),), self.eps)).clamp(max=1)
        return torch.where(per_example(inside, z), z, x + per_example(scale, x) * (z - x)).clamp(0, 1)

    def sample(self, x: Tensor, rng: Streams) -> Tensor:
        r"""Uniform in the ball: normal direction, radius :math:`\epsilon\,u^{1/d}`; then clipped to the box."""
        return self.sample_within(x, rng, self.eps)

    def sample_within(self, x: Tensor, rng: Streams, radius: float | Tensor) -> Tensor:
        """As `sample`, with another radius, one for all or (N,)."""
        direction = rng.normal(x)
        length = radius * rng.uniform(x.new_empty(len(x))) ** (1 / math.prod(x.shape[1:]))
        return (x + per_example(length, x) * self.steepest(direction, x)).clamp_(0, 1)

    def steepest(self, grad: Tensor, z: Tensor) -> Tensor:
        """The gradient at unit length; zero where it is zero."""
        return grad / per_example(_nonzero(self.dual(grad)), grad)

    def ascent(self, grad: Tensor, z: Tensor) -> Tensor:
        """The steepest direction."""
        return self.steepest(grad, z)

    def extreme(self, grad: Tensor, x: Tensor) -> Tensor:
        """Step along the gradient, lengthened where the box stops a coordinate: the maximiser is `clip(x + t grad)`."""
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
        """Step along the normal, lengthened where the box stops a coordinate: the nearest point is `clip(x + t w)`."""
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
    return (x + per_example(_exact(x, direction, radius), x) * direction).clamp(0, 1)


def rescale(x: Tensor, direction: Tensor, radius: Tensor) -> Tensor:
    r"""The smallest :math:`\eta \ge 0` with :math:`\|\mathrm{clip}(x + \eta d) - x\|_2 = r`, (N,).

    With :math:`u = \eta^2` and the room :math:`w_i` between a value and the wall that it moves towards,

    .. math:: \sum_i \min(u\,d_i^2, w_i^2) = r^2

    is concave and piecewise linear in :math:`u`. Newton's steps from the left never pass the root, and each of them
    solves the equation for the values that have reached the wall so far, so the answer is exact as soon as no further
    value reaches it. A handful of passes over the batch suffices, less work than one sort of the knots. Sums are taken
    afresh in each pass instead of being accumulated from knot to knot, so that float32 is enough. A row that is done
    keeps its bits in the passes that other rows need.

    Where the cube is too small, the smallest :math:`\eta` that brings all values to the wall; 0 for a zero direction.

    Args:
        x: points in [0, 1], (N, ...).
        direction: :math:`d`, like `x`, of any length.
        radius: :math:`r \ge 0`, (N,).

    Reference:
        Rauber, Bethge, Fast Differentiable Clipping-Aware Normalization and Rescaling, 2020, arXiv:2007.07677.
        Differs: Newton's steps instead of a sort.
    """
    space, slope = room(x, direction).flatten(1).square(), direction.flatten(1).square()
    wanted = radius.to(x).square()
    zero, tiny = space.new_zeros(()), torch.finfo(x.dtype).tiny
    u = wanted / slope.sum(1).clamp_min(tiny)
    before = torch.full_like(wanted, -1, dtype=torch.int64)
    for _ in range(slope.shape[1] + 1):
        at_the_wall = space <= slope * u[:, None]
        count = at_the_wall.sum(1)
        if torch.equal(count, before):
            break
        gained = torch.where(at_the_wall, space, zero).sum(1)
        rate = torch.where(at_the_wall, zero, slope).sum(1)
        u = torch.maximum(u, torch.where(rate > 0, (wanted - gained) / rate, u))
        before = count
    too_far = space.where(slope > tiny, zero).sum(1) <= wanted
    if bool(too_far.any()):
        last = (space / slope).where(slope > tiny, zero).amax(1)  # coordinates of no slope do not move
        u = torch.where(too_far, last, u)
    return u.sqrt()


def norm(rows: Tensor) -> Tensor:
    """Euclidean length of each row."""
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1)
    return lengths


def _exact(x: Tensor, direction: Tensor, radius: Tensor) -> Tensor:
    """`rescale` in float64: an attack's radii may be tiny."""
    return rescale(x.double(), direction.double(), radius.double()).to(x.dtype)


def _nonzero(norm: Tensor) -> Tensor:
    return norm.where(norm > 0, torch.ones_like(norm))
