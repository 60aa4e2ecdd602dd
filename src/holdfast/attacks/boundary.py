"""The Boundary attack: a random walk along the decision boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.decision import bisect, reached, walked
from holdfast.attacks.minimal import Rows, ball, require_positive, within_eps
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.threat.l2 import L2, norm
from holdfast.threat.shape import per_example
from holdfast.traits import Access
from holdfast.types import Classifier, Threat

RATE = 0.1
"""How fast step sizes follow the answers."""

ALONG, INWARDS = 0.3, 0.25
"""Which share of the steps along the sphere, and of those inwards after them, is to succeed."""


@dataclass(frozen=True, kw_only=True)
class Boundary:
    r"""Random steps along the sphere around `x`, each followed by a step inwards, kept while they are successes.

    .. math::
        s_t = x + r_t \frac{z_t + \eta_t - x}{\|z_t + \eta_t - x\|}, \qquad
        z_{t+1} = s_t + \epsilon_t\,(x - s_t) \ \text{if a success, else } z_t

    with :math:`r_t = \|z_t - x\|` and :math:`\eta_t` normal, orthogonal to :math:`z_t - x` and of length
    :math:`\delta_t r_t`. :math:`\delta_t` is held where 30 % of the :math:`s_t` are successes and :math:`\epsilon_t`
    where a quarter of the steps inwards are. It looks at predicted classes alone. A minimum-norm attack: the last point
    is the nearest, and `x` is returned where none is within eps.

    Args:
        threat: l2; its eps is the largest distance of interest.
        steps: proposals; one query each, and another where the first is a success.
        spherical_step: the first :math:`\delta`.
        source_step: the first :math:`\epsilon`.
        starts: images of each kind of noise to try, where no image of another class is there to start from.

    Reference:
        Brendel, Rauber, Bethge, Decision-Based Adversarial Attacks, ICLR 2018, arXiv:1712.04248, section 2. Differs:
        step sizes follow every answer a little instead of many answers at once; 30 % and not half of the steps along
        the sphere are to succeed, since the shorter steps that half asks for get stuck (mean distance 0.66 instead of
        0.57 on a network for the digits); the start, an image of another class where there are images
        (`StartingFrom`) and noise otherwise, goes to the boundary by bisection first. An example without a start is not
        attacked, and noted so.
    """

    access: ClassVar = Access.DECISIONS
    minimises: ClassVar = True

    threat: Threat
    steps: int = 5000
    spherical_step: float = 0.1
    source_step: float = 0.1
    starts: int = 100

    def __post_init__(self) -> None:
        ball("boundary", self.threat, (L2,))
        require_positive("boundary", steps=self.steps, starts=self.starts)
        require_positive("boundary", spherical_step=self.spherical_step, source_step=self.source_step)

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The nearest success within eps for each example, or `x`."""
        return within_eps(self._search, self.threat, model, x, y, target, rng)

    def _search(self, rows: Rows) -> Tensor:
        return walked(ball("boundary", self.threat), rows, self.starts, self._walk)

    def _walk(self, rows: Rows, z: Tensor) -> Tensor:
        x, rng = rows.x, rows.rng.split("walk")
        z = bisect(ball("boundary", self.threat), rows, z, halvings=10)
        along, inwards = (z.new_full((len(z),), size) for size in (self.spherical_step, self.source_step))
        for _ in range(self.steps):
            sphere = step_along_sphere(x, z, rng.normal(z), along)
            succeeded = reached(rows, sphere)
            nearer = torch.lerp(sphere, x, per_example(inwards, x))
            kept = succeeded.clone()
            kept[succeeded] = reached(rows[succeeded], nearer[succeeded])
            along = _adapted(along, succeeded, ALONG)
            inwards = torch.where(succeeded, _adapted(inwards, kept, INWARDS), inwards)
            z = torch.where(per_example(kept, z), nearer, z)
        return z


def step_along_sphere(x: Tensor, z: Tensor, noise: Tensor, size: Tensor) -> Tensor:
    """From `z` sideways by `size` times its distance from `x`, back to that distance, then into the box."""
    step = (z - x).flatten(1)
    radius = norm(step)[:, None]
    sideways = noise.flatten(1)
    sideways = sideways - step * ((sideways * step).sum(1, keepdim=True) / radius.square())
    moved = step + sideways * (size[:, None] * radius / norm(sideways)[:, None].clamp(min=1e-12))
    return (x + (moved * (radius / norm(moved)[:, None])).view_as(x)).clamp_(0, 1)


def _adapted(size: Tensor, yes: Tensor, wanted: float) -> Tensor:
    """A step size that grows with successes and shrinks with failures, still where the wanted share succeeds."""
    return (size * torch.exp(RATE * (yes.to(size.dtype) - wanted))).clamp(max=1)
