"""Auto-PGD in the norm l1: sparse steps, and budgets that shrink to the true one."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from holdfast.attacks.search import Front
from holdfast.gradients import input_gradient
from holdfast.rng import Streams
from holdfast.threat.l1 import L1
from holdfast.threat.shape import per_example

STAGES = ((3, 0.3), (2, 0.3), (1, 0.4))
"""Multiples of the budget, and the share of the steps spent at each."""

SHRINK, LEAST = 1.5, 10.0


def climb_sparsely(front: Front, threat: L1, steps: int, rng: Streams) -> None:
    r"""One run of l1-Auto-PGD on the examples still standing.

    A step moves only the coordinates of largest slope, a share :math:`k` of them, by the same amount, and goes back to
    the threat set by the exact projection on ball and box. :math:`k` is the share of coordinates that the perturbation
    changes, over 1.5: at first the starting one, then, every 4 % of the steps, the best one. Where their number still
    falls by more than 5 %, the step starts again at the full size from the best point, elsewhere it shrinks by 1.5,
    down to a tenth. The first two stages search balls of three and two times the radius, whose points are then
    projected on the next smaller one; only the last stage counts.

    Reference:
        Croce, Hein, Mind the Box: l1-APGD for Sparse Adversarial Attacks on Image Classifiers, ICML 2021,
        arXiv:2103.01208, section 3.
    """
    z = None
    counts = [int(share * steps) for _, share in STAGES[:-1]]
    for (multiple, _), count in zip(STAGES, [*counts, steps - sum(counts)], strict=True):
        if not len(front):
            return
        ball = L1(multiple * threat.eps)
        start = front.x + rng.normal(front.x) if z is None else z
        z = _stage(front, ball, count, ball.project_exact(start, front.x), counts=multiple == 1)


def _stage(front: Front, ball: L1, steps: int, z: Tensor, *, counts: bool) -> Tensor:
    """One budget; returns the best points of those who stay, to start the next one from."""
    x = front.x
    every = max(int(0.04 * steps), 1)
    value, grad, stay = _differentiate(front, z, counts)
    state = _State.at(z, x, value, grad, ball.eps).select(stay)
    for step in range(1, steps + 1):
        if not len(front):
            break
        move = _sparse_sign(state.grad, state.share) * per_example(state.step, state.z)
        z = ball.project_exact(state.z + move, front.x)
        value, grad, stay = _differentiate(front, z, counts)
        state = state.moved(z, value, grad).select(stay)
        if step % every == 0:
            state = state.adapted(front.x, ball.eps)
    return state.best


def _differentiate(front: Front, z: Tensor, counts: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """As `front.differentiate`; outside the true ball nothing is recorded and nobody leaves."""
    if counts:
        return front.differentiate(z)
    values, grad, _ = input_gradient(front.aim.loss, front.model, z, front.aim.labels)
    return values, grad, None


def _sparse_sign(grad: Tensor, share: Tensor) -> Tensor:
    """Signs of the largest entries, a given share of them per example, scaled to unit l1 norm."""
    size = grad.flatten(1).abs()
    order = size.sort(dim=1).values
    place = ((1 - share) * size.shape[1]).long().clamp(0, size.shape[1] - 1)
    keep = size >= order.gather(1, place[:, None])
    sign = (grad.flatten(1).sign() * keep).view_as(grad)
    count = sign.abs().flatten(1).sum(1)
    return sign / per_example(count.clamp(min=1), sign)


def _changed(z: Tensor, x: Tensor) -> Tensor:
    """How many coordinates differ, (N,)."""
    return (z - x).flatten(1).ne(0).sum(1).to(z)


def _share(changed: Tensor, x: Tensor) -> Tensor:
    """The share of coordinates that the next steps move."""
    return changed / math.prod(x.shape[1:]) / 1.5


@dataclass(frozen=True)
class _State:
    """What l1-Auto-PGD remembers of each example."""

    z: Tensor
    grad: Tensor
    best: Tensor
    best_value: Tensor
    best_grad: Tensor
    step: Tensor
    share: Tensor  # of the coordinates that move
    sparsity: Tensor  # changed coordinates of the best point at the last check

    @classmethod
    def at(cls, z: Tensor, x: Tensor, value: Tensor, grad: Tensor, eps: float) -> _State:
        changed = _changed(z, x)
        return cls(z, grad, z, value, grad, torch.full_like(value, eps), _share(changed, x), changed)

    def select(self, stay: Tensor | None) -> _State:
        return self if stay is None else _State(*[getattr(self, f.name)[stay] for f in fields(self)])

    def moved(self, z: Tensor, value: Tensor, grad: Tensor) -> _State:
        better = value > self.best_value
        wide = per_example(better, z)
        return replace(
            self,
            z=z,
            grad=grad,
            best=torch.where(wide, z, self.best),
            best_value=torch.where(better, value, self.best_value),
            best_grad=torch.where(wide, grad, self.best_grad),
        )

    def adapted(self, x: Tensor, eps: float) -> _State:
        changed = _changed(self.best, x)
        falls = changed < 0.95 * self.sparsity
        wide = per_example(falls, self.z)
        return replace(
            self,
            z=torch.where(wide, self.best, self.z),
            grad=torch.where(wide, self.best_grad, self.grad),
            step=torch.where(falls, torch.full_like(self.step, eps), self.step / SHRINK).clamp(min=eps / LEAST),
            share=_share(changed, x),
            sparsity=changed,
        )
