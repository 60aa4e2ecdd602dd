"""HopSkipJump: the direction of the boundary from yes-or-no answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.decision import bisect, reached, walked
from holdfast.attacks.minimal import Nearest, Rows, ball, require_positive, within_eps
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.threat.l2 import L2
from holdfast.threat.linf import Linf
from holdfast.threat.shape import per_example
from holdfast.traits import Access
from holdfast.types import Classifier, Threat

ROWS = 2048
"""How many points to ask about at once, about."""


@dataclass(frozen=True, kw_only=True)
class HopSkipJump:
    r"""Walks along the decision boundary towards `x`, by predicted classes alone.

    .. math::
        g_t = \frac{1}{B_t - 1} \sum_{b=1}^{B_t} \bigl(\phi_b - \bar\phi\bigr) u_b, \qquad
        z_{t+1} = \mathrm{bisect}_x\Bigl(z_t + \xi_t\, s(g_t)\Bigr)

    :math:`\phi_b = \pm 1` says whether :math:`z_t + \delta_t u_b` is a success, :math:`u_b` is uniform on the sphere,
    :math:`\delta_t = \|z_t - x\| / d`, :math:`B_t = B_0 \sqrt t`, :math:`s` the steepest direction of the norm and
    :math:`\xi_t = \|z_t - x\| / \sqrt t`, halved until the jump ends in a success. A minimum-norm attack: the nearest
    success is returned, and `x` where none is within eps.

    Args:
        threat: linf or l2; its eps is the largest distance of interest.
        steps: jumps.
        samples: :math:`B_0`.
        starts: images of each kind of noise to try, where no image of another class is there to start from.

    Reference:
        Chen, Jordan, Wainwright, HopSkipJumpAttack: A Query-Efficient Decision-Based Attack, S&P 2020,
        arXiv:1904.02144, algorithms 1 and 2. Differs: keeps the nearest point, not the last; bisects to
        :math:`d^{-2}` in both norms and at least ten times, since the published :math:`d^{-3/2}` is coarse for small
        inputs; untargeted attacks, too, start from an image of another class where there are images (`StartingFrom`),
        and targeted ones from noise where there are none. An example without a start is not attacked, and noted so.
    """

    access: ClassVar = Access.DECISIONS
    minimises: ClassVar = True

    threat: Threat
    steps: int = 40
    samples: int = 100
    starts: int = 100

    def __post_init__(self) -> None:
        ball("hopskipjump", self.threat, (Linf, L2))
        require_positive("hopskipjump", steps=self.steps, samples=self.samples - 1, starts=self.starts)

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The nearest success within eps for each example, or `x`."""
        return within_eps(self._search, self.threat, model, x, y, target, rng)

    def _search(self, rows: Rows) -> Tensor:
        return walked(ball("hopskipjump", self.threat), rows, self.starts, self._walk)

    def _walk(self, rows: Rows, z: Tensor) -> Tensor:
        threat, nearest = ball("hopskipjump", self.threat), Nearest(self.threat, rows.x)
        every = torch.ones(len(z), dtype=torch.bool, device=z.device)
        rng, halvings = rows.rng.split("walk"), max(10, math.ceil(2 * math.log2(z[0].numel())))
        z = bisect(threat, rows, z, halvings)
        nearest.offer(z, every)
        for t in range(1, self.steps + 1):
            distance = threat.distance(z, rows.x)
            count = int(self.samples * math.sqrt(t))
            grad = boundary_normal(rows, z, distance / z[0].numel(), count, rng)
            z = jump(rows, z, threat.steepest(grad, z), distance / math.sqrt(t))
            z = bisect(threat, rows, z, halvings)
            nearest.offer(z, every)
        return nearest.best_points


def boundary_normal(rows: Rows, z: Tensor, radius: Tensor, count: int, rng: Streams) -> Tensor:
    """Estimate of the direction into the successes at points `z` of the boundary, from `count` answers at a radius."""
    radius, answers = per_example(radius, z), z.new_zeros(len(z))
    total, agreed = torch.zeros_like(z), torch.zeros_like(z)
    for first in range(0, count, max(1, ROWS // len(z))):
        size = min(max(1, ROWS // len(z)), count - first)
        noise = torch.stack([rng.normal(z) for _ in range(size)])
        noise /= torch.linalg.vector_norm(noise.flatten(2), dim=2).view(size, -1, *[1] * (z.dim() - 1))
        moved = (z + radius * noise).clamp_(0, 1)
        signs = reached(rows, moved.flatten(0, 1)).view(size, -1).to(z.dtype).mul_(2).sub_(1)
        step = (moved - z) / radius  # what the box has left of the noise
        total += step.sum(0)
        agreed += (step * signs.view(*signs.shape, *[1] * (z.dim() - 1))).sum(0)
        answers += signs.sum(0)
    mean = per_example(answers / count, z)
    return torch.where(mean.abs() == 1, agreed, agreed - mean * total)


def jump(rows: Rows, z: Tensor, direction: Tensor, size: Tensor, halvings: int = 25) -> Tensor:
    """Steps of this size, each halved until it ends in a success; those that never do stay."""
    landed, left = z.clone(), torch.arange(len(z), device=z.device)
    for _ in range(halvings):
        candidates = (z[left] + per_example(size[left], z) * direction[left]).clamp_(0, 1)
        yes = reached(rows, candidates)
        landed[left[yes]] = candidates[yes]
        left, rows, size = left[~yes], rows[~yes], size / 2
        if not len(left):
            break
    return landed
