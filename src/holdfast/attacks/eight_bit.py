"""Attacks whose results are images of eight bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.search import Aim, Front
from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.threat.shape import per_example
from holdfast.traits import Access, traits_of
from holdfast.types import Attack, Classifier, Loss, Threat

LEVELS = 255


@dataclass(frozen=True, kw_only=True)
class EightBit:
    r"""Another attack, with its result moved to the grid :math:`\{0, 1/255, \dots, 1\}^d` inside the threat set.

    Rounding may leave the threat set or undo the attack. First every coordinate goes to its nearest level; where that
    leaves the set, to the next one in the direction of `x`, largest changes first and as many as fit. Where the model
    is then right again, steps of one level along the sign of the gradient follow, of the coordinates with the largest
    slope first and as many as the threat set has room for:

    .. math:: z_{t+1} = z_t + \tfrac{1}{255}\,\mathrm{sign}(g_t) \odot 1[\,|g_t| \text{ among the } k \text{ largest}\,]

    An example whom the grid saves in the end is returned standing, at the grid point of highest loss. Where the threat
    set of an image that is not on the grid does not hold its own rounding, the image itself is returned.

    Args:
        attack: the attack.
        repairs: gradient steps on the grid at most; 0 only rounds and needs no gradient.
        loss: per-example loss that the repairs climb.
    """

    wraps: ClassVar = "attack"
    persistent: ClassVar = False  # it looks for success on the grid by itself

    attack: Attack
    repairs: int = 10
    loss: Loss = cross_entropy

    def __post_init__(self) -> None:
        if self.repairs < 0:
            raise ValueError(f"repairs must not be negative, got {self.repairs}")

    @property
    def access(self) -> str | None:
        """Repairs follow gradients; without any, what the attack needs."""
        return Access.GRADIENTS if self.repairs else traits_of(self.attack).access

    @property
    def threat(self) -> Threat:
        """Where the attack may search."""
        return self.attack.threat

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """A grid point for each example."""
        x, rng = x.detach(), streams(rng, x)
        z = rounded(self.threat, self.attack(model, x, y, target=target, rng=rng), x)
        front = Front(model, x, Aim.of(self.loss, y, target), rng, leave=True)
        for _ in range(self.repairs):
            if not len(front):
                break
            _, grad, stay = front.differentiate(z)
            if stay is not None:
                z, grad = z[stay], grad[stay]
            z = stepped(self.threat, z, front.x, grad)
        front.look(z)
        return front.best_points


def rounded(threat: Threat, z: Tensor, x: Tensor) -> Tensor:
    """A grid point near `z` in the threat set: every coordinate at its nearest level, or only the largest changes."""
    scaled, plain = z * LEVELS, (x * LEVELS).round() / LEVELS
    nearest = scaled.round() / LEVELS
    inwards = torch.where(z > x, scaled.floor(), scaled.ceil()) / LEVELS
    nearest = nearest.where((nearest - x).abs() <= _reach(threat, x), inwards)
    part = apply_largest(threat, plain, inwards, (z - x).abs(), x)
    fallback = torch.where(per_example(_inside(threat, part, x), x), part, x)
    return torch.where(per_example(_inside(threat, nearest, x), x), nearest, fallback)


def stepped(threat: Threat, z: Tensor, x: Tensor, grad: Tensor) -> Tensor:
    """One level along the gradient's sign, in as many of the steepest coordinates as stay in the threat set."""
    neighbours = ((z * LEVELS).round() + grad.sign()).clamp_(0, LEVELS) / LEVELS
    on_grid = (z * LEVELS).round().div(LEVELS).eq(z).flatten(1).all(1)
    useful = ((neighbours - x).abs() <= _reach(threat, x)) & per_example(on_grid, z)
    return apply_largest(threat, z, neighbours, grad.abs().where(useful, 0), x)


def apply_largest(threat: Threat, z: Tensor, replacement: Tensor, weight: Tensor, x: Tensor) -> Tensor:
    """`replacement` in as many coordinates of largest positive weight as stay in the threat set, `z` in the others."""
    rank = weight.flatten(1).argsort(1, descending=True).argsort(1).view_as(z)
    high = (weight > 0).flatten(1).sum(1)
    low = torch.zeros_like(high)
    for _ in range(weight.flatten(1).shape[1].bit_length()):
        middle = (low + high + 1) // 2
        fits = _inside(threat, torch.where(rank < per_example(middle, z), replacement, z), x)
        low, high = torch.where(fits, middle, low), torch.where(fits, high, middle - 1)
    return torch.where(rank < per_example(low, z), replacement, z)


def _inside(threat: Threat, z: Tensor, x: Tensor) -> Tensor:
    return threat.distance(z, x) <= _reach(threat, x)


def _reach(threat: Threat, x: Tensor) -> float:
    """Eps and a few roundings: the difference of two levels is not always the float that eps is."""
    return threat.eps + 4 * torch.finfo(x.dtype).eps
