"""The geometry that minimum-norm attacks need of a norm, and the equation behind it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from holdfast.rng import Streams
from holdfast.threat.shape import room
from holdfast.types import Threat


@runtime_checkable
class Ball(Threat, Protocol):
    """A threat with a radius for each example and the nearest point of a hyperplane."""

    def project_within(self, z: Tensor, x: Tensor, radius: float | Tensor) -> Tensor:
        """As `project`, with another radius, one for all or (N,)."""
        ...

    def sample_within(self, x: Tensor, rng: Streams, radius: float | Tensor) -> Tensor:
        """As `sample`, with another radius, one for all or (N,)."""
        ...

    def rescaled(self, radius: Tensor, factor: float) -> Tensor:
        """Radii (N,) times a factor, rounded to radii that the norm can have."""
        ...

    def to_hyperplane(self, x: Tensor, normal: Tensor, value: Tensor) -> Tensor:
        r"""The point of the box nearest to `x` where a linear function is zero.

        .. math:: \arg\min_{z \in [0, 1]^d} \|z - x\| \quad\text{with}\quad v + \langle w, z - x\rangle = 0

        Where the box holds no such point, the one where the function is nearest to zero.

        Args:
            x: points in [0, 1], (N, ...).
            normal: :math:`w`, like `x`.
            value: :math:`v`, the function's value at `x`, (N,).
        """
        ...


def level(slope: Tensor, limit: Tensor, wanted: Tensor) -> Tensor:
    r"""The :math:`t \ge 0` with :math:`\sum_i a_i \min(t, l_i) = v`, (N,); the largest limit that matters if none.

    The sum is concave and piecewise linear in :math:`t`, so Newton's steps from 0 never pass the root and end on it
    after finitely many of them: each moves to another piece. A handful is enough, where a sort would cost more than all
    of them.

    Args:
        slope: :math:`a \ge 0`, (N, D).
        limit: :math:`l \ge 0`, (N, D).
        wanted: :math:`v \ge 0`, (N,).
    """
    t = torch.zeros_like(wanted)
    for _ in range(slope.shape[1] + 1):
        reached = torch.minimum(limit, t[:, None]).mul_(slope).sum(1)
        rate = (limit > t[:, None]).to(slope.dtype).mul_(slope).sum(1)
        step = torch.where(rate > 0, (wanted - reached) / rate, 0).clamp_(min=0)
        t = t + step
        if bool((step <= 4 * torch.finfo(t.dtype).eps * t).all()):
            break
    return t


def towards_zero(normal: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """The direction (N, D) in which a linear function goes to zero, its largest entry 1, and the change it needs."""
    flat = normal.flatten(1)
    largest = flat.abs().amax(1)
    largest = largest.where(largest > 0, torch.ones_like(largest))
    return flat / largest[:, None] * -value.sign()[:, None], value.abs() / largest


def fill(x: Tensor, direction: Tensor, far: Tensor, order: Tensor) -> Tensor:
    """Move coordinates in this order, each as far as the box allows, until a linear function has grown enough.

    Args:
        x: points in [0, 1], (N, ...).
        direction: the function's gradient, (N, D).
        far: how much it has to grow, (N,).
        order: order of the coordinates, (N, D).
    """
    slope, limit = (rows.gather(1, order) for rows in (direction.abs(), room(x.flatten(1), direction)))
    gain = slope * limit
    left = far[:, None] - (gain.cumsum(1) - gain)
    move = torch.minimum(limit, left.clamp(min=0) / slope.where(slope > 0, torch.inf))
    move = move * direction.gather(1, order).sign()
    return (x + torch.zeros_like(move).scatter(1, order, move).view_as(x)).clamp_(0, 1)
