"""The Square attack: random search with square-shaped changes, by scores alone."""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.search import Aim, Front
from holdfast.losses import cross_entropy, margin
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.threat.l1 import L1
from holdfast.threat.l2 import L2
from holdfast.threat.linf import Linf
from holdfast.traits import Access
from holdfast.types import Classifier, Loss, Threat

HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""After how many of 10,000 queries the share of changed pixels is halved."""


@dataclass(frozen=True, kw_only=True)
class Square:
    r"""Random search: change one square window at a time and keep the change if the loss grows.

    .. math:: z_{t+1} = \arg\max_{z \in \{z_t,\ \Pi_{S(x)}(z_t + \delta_t)\}} \ell(f(z), y)

    :math:`\delta_t` is a window of side :math:`\sqrt{p_t\,w h}` at a random place, with :math:`p_t` halved on the
    published schedule, rescaled to `queries`. For :math:`\ell_\infty` the window goes to :math:`\pm\epsilon` in every
    channel, from a start of vertical stripes. For :math:`\ell_2` and :math:`\ell_1` it takes the perturbation of a
    second window and what is left of the budget, and spends it on two bumps of opposite sign.

    Args:
        threat: linf, l2 or l1.
        queries: evaluations per example and restart; the clean image costs one more.
        share: :math:`p_0`, the share of pixels in the first windows.
        loss: per-example loss to climb; None means the margin, and the cross-entropy towards a target.
        restarts: how often to start anew; only examples still standing do.

    Reference:
        Andriushchenko et al., Square Attack: a Query-Efficient Black-Box Adversarial Attack via Random Search,
        ECCV 2020, arXiv:1912.00049; for l1 Croce, Hein, Mind the Box, ICML 2021, arXiv:2103.01208, section 4.
        Differs: every example has windows of its own, and they reach the last row and column (in the reference
        implementation one window serves the whole batch, and stops one short).
    """

    access: ClassVar = Access.SCORES

    threat: Threat
    queries: int = 5000
    share: float = 0.8
    loss: Loss | None = None
    restarts: int = 1

    def __post_init__(self) -> None:
        if type(self.threat) not in SQUARES:
            raise ValueError(f"square: no windows for {type(self.threat).__name__.lower()}; known: linf, l2, l1")
        if self.queries < 1 or self.restarts < 1:
            raise ValueError(f"queries and restarts must be at least 1, got {self.queries} and {self.restarts}")
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie in (0, 1], got {self.share}")

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The best point found for each example."""
        loss = self.loss or (margin if target is None else cross_entropy)
        front = Front(model, x, Aim.of(loss, y, target), streams(rng, x), leave=True)
        front.look(x)
        for restart in range(self.restarts):
            self._search(front, f"restart {restart}")
        return front.best_points

    @torch.no_grad()
    def _search(self, front: Front, name: str) -> None:
        if not len(front):
            return
        moves, rng = SQUARES[type(self.threat)](self.threat), front.rng.split(name)
        z = moves.start(as_planes(front.x), rng)
        best = z.new_full((len(z),), -torch.inf)
        for t in range(self.queries):
            candidates = moves.propose(z, as_planes(front.x), self._share_at(t - 1), rng) if t else z
            logits = front.model(candidates.view(front.x.shape))
            values = front.aim.loss(logits, front.aim.labels)
            better = values > best
            best = torch.where(better, values, best)
            z[better] = candidates[better]
            stay = front.record(candidates.view(front.x.shape), values, logits)
            if stay is not None:
                z, best, rng = z[stay], best[stay], rng[stay]
            if not len(front):
                return

    def _share_at(self, t: int) -> float:
        return self.share * 0.5 ** bisect_left(HALVINGS, int(t / self.queries * 10_000))


def as_planes(x: Tensor) -> Tensor:
    """View a batch of any shape as (N, C, H, W); a vector is one row."""
    height, width = (1, *x.shape[1:])[-2:]
    return x.reshape(len(x), math.prod(x.shape[1:]) // max(height * width, 1), height, width)


class Moves(Protocol):
    """How the search starts and moves in one norm; planes (N, C, H, W) to new planes."""

    def start(self, x: Tensor, rng: Streams) -> Tensor:
        """Where to begin."""
        ...

    def propose(self, z: Tensor, x: Tensor, share: float, rng: Streams) -> Tensor:
        """The next point to ask about."""
        ...


@dataclass(frozen=True)
class Flips:
    """The maximum norm: vertical stripes, then windows at plus or minus eps, one sign per channel."""

    threat: Threat

    def start(self, x: Tensor, rng: Streams) -> Tensor:
        """A random sign for every column of every channel."""
        return (x + self.threat.eps * _signs(rng.uniform(x[:, :, :1]))).clamp_(0, 1)

    def propose(self, z: Tensor, x: Tensor, share: float, rng: Streams) -> Tensor:
        """One window goes to the edge of the ball; the rest stays, so that only the window costs."""
        side = max(round(math.sqrt(share * x[0, 0].numel())), 1)
        draws = _draws(rng, x, 2 + x.shape[1])
        where = _window(draws[:, :2], _cut(side, x), x)
        edge = x.flatten(2).gather(2, where) + self.threat.eps * _signs(draws[:, 2:, None].to(x.dtype))
        return z.flatten(2).scatter(2, where, edge.clamp_(0, 1)).view_as(z)


@dataclass(frozen=True)
class Bumps:
    r"""Norms in which :math:`\sum_i |\delta_i|^q` is shared out: what one window gives up, another spends.

    Args:
        threat: the ball.
        power: :math:`q`, 2 or 1.
        decay: exponent of the bumps; the larger, the sparser.
        grow: spend as much as all channels together and let the projection shorten everything (l1).
    """

    threat: Threat
    power: int
    decay: int
    grow: bool

    def start(self, x: Tensor, rng: Streams) -> Tensor:
        """A grid of five by five bumps with random signs and orientations, at full budget."""
        height, width = x.shape[2:]
        side = max(height // 5, 1)
        shape = _cut(side, x)
        tiles = (height // shape[0], width // shape[1])
        signs = rng.uniform(x.new_empty(len(x), x.shape[1], *tiles))
        turned = rng.uniform(x.new_empty(len(x), 1, *tiles)) < 0.5
        upright, lying = bumps(*shape, self.power, self.decay).to(x).view(2, *shape).repeat(1, *tiles)
        step = _spread(_signs(signs), shape) * torch.where(_spread(turned, shape), upright, lying)
        top, left = (height - step.shape[2]) // 2, (width - step.shape[3]) // 2
        step = F.pad(step, (left, width - step.shape[3] - left, top, height - step.shape[2] - top))
        return self._finish(step * (self._budget / self._mass(step).sum(1, keepdim=True)) ** (1 / self.power), x)

    def propose(self, z: Tensor, x: Tensor, share: float, rng: Streams) -> Tensor:
        """Empty two windows and fill the first with their perturbation, a new bump and the unused budget."""
        channels = x.shape[1]
        side = max(round(math.sqrt(share * x[0, 0].numel())), 3)
        shape = _cut(side + 1 - side % 2, x)
        draws = _draws(rng, x, 5 + channels)
        first, second = (_window(place, shape, x) for place in (draws[:, :2], draws[:, 2:4]))
        step = (z - x).flatten(2)
        unused = self._budget - self._mass(step).sum(1, keepdim=True)
        kept = step.gather(2, first)
        held = self._mass(kept)
        step.scatter_(2, first, 0)
        mass = held + self._mass(step.gather(2, second)) + unused / channels
        step.scatter_(2, second, 0)
        pattern = bumps(*shape, self.power, self.decay).to(x)[(draws[:, 4] < 0.5).long()]
        new = _signs(draws[:, 5:, None].to(x.dtype)) * pattern[:, None] + kept / self._length(held)
        length = mass.clamp(min=0) ** (1 / self.power) * (channels if self.grow else 1)
        step.scatter_(2, first, new * (length / self._length(self._mass(new))))
        return self._finish(step.view_as(z), x)

    @property
    def _budget(self) -> float:
        """A little less than the ball holds, so that rounding does not leave it."""
        return float((self.threat.eps * (1 - 1e-6)) ** self.power)

    def _mass(self, step: Tensor) -> Tensor:
        """Sum of |step|^q over each channel, (N, C, 1) or with another dimension if step has one."""
        planes = step.flatten(2).abs() if self.power == 1 else step.flatten(2).square()
        return planes.sum(2).view(*step.shape[:2], *[1] * (step.dim() - 2))

    def _length(self, mass: Tensor) -> Tensor:
        return mass.clamp(min=1e-30) ** (1 / self.power)

    def _finish(self, step: Tensor, x: Tensor) -> Tensor:
        """Into the box, and those whom it left outside of the ball into that."""
        z = (x + step).clamp_(0, 1)
        outside = self.threat.distance(z, x) > self.threat.eps
        if outside.any():
            z[outside] = self.threat.project_exact((x + step)[outside], x[outside])
        return z


SQUARES: dict[type, Callable[[Threat], Moves]] = {
    Linf: Flips,
    L2: functools.partial(Bumps, power=2, decay=2, grow=False),
    L1: functools.partial(Bumps, power=1, decay=4, grow=True),
}
"""How the search moves in each norm."""


@functools.lru_cache(maxsize=64)
def bumps(height: int, width: int, power: int, decay: int) -> Tensor:
    """Two bumps of opposite sign that fill a window, upright and lying, each of norm 1, (2, height * width)."""
    lying = _two_bumps(height, width, power, decay)
    upright = _two_bumps(width, height, power, decay).T
    both = torch.stack((upright, lying)).flatten(1)
    return both / both.abs().pow(power).sum(1, keepdim=True) ** (1 / power)


def _two_bumps(height: int, width: int, power: int, decay: int) -> Tensor:
    half = height // 2
    return torch.cat((_bump(half, width, power, decay), -_bump(height - half, width, power, decay)))


def _bump(height: int, width: int, power: int, decay: int) -> Tensor:
    r""":math:`\sum_{j > D} j^{-a}` with :math:`D` the rings from the centre, j up to the last ring; of norm 1."""
    rows, columns = torch.arange(height) - height // 2, torch.arange(width) - width // 2
    rings = torch.maximum(rows.abs()[:, None], columns.abs()[None])
    terms = torch.arange(1, max(height, width) // 2 + 2, dtype=torch.float64) ** -decay
    values = terms.flip(0).cumsum(0).flip(0)[rings]
    return values / values.pow(power).sum() ** (1 / power)


def _draws(rng: Streams, x: Tensor, count: int) -> Tensor:
    return rng.uniform(x.new_empty(len(x), count, dtype=torch.float64))


def _signs(uniform: Tensor) -> Tensor:
    return (uniform - 0.5).sign_().add_(0.5).sign_()  # a draw of exactly one half counts as plus


def _cut(side: int, x: Tensor) -> tuple[int, int]:
    """Height and width of a window of this side in images like `x`."""
    return min(side, x.shape[2]), min(side, x.shape[3])


def _window(place: Tensor, shape: tuple[int, int], x: Tensor) -> Tensor:
    """Where in the flattened planes a window of this shape lies, at a place drawn from [0, 1)^2; (N, C, h * w)."""
    free = torch.tensor([x.shape[2] - shape[0], x.shape[3] - shape[1]], device=x.device)
    corner = torch.minimum((place * (free + 1)).long(), free)
    rows = corner[:, :1] + torch.arange(shape[0], device=x.device)
    columns = corner[:, 1:] + torch.arange(shape[1], device=x.device)
    flat = (rows[:, :, None] * x.shape[3] + columns[:, None]).flatten(1)
    return flat[:, None].expand(-1, x.shape[1], -1)


def _spread(tiles: Tensor, shape: tuple[int, int]) -> Tensor:
    return tiles.repeat_interleave(shape[0], 2).repeat_interleave(shape[1], 3)
