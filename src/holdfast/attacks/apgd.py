"""Auto-PGD: projected gradient descent that finds its own step size."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.apgd_l1 import climb_sparsely
from holdfast.attacks.search import Aim, Front, require_metric_threat
from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.threat.l1 import L1
from holdfast.threat.shape import per_example
from holdfast.traits import Access
from holdfast.types import Classifier, Loss, Threat

MOMENTUM = 0.75
RISES = 0.75


@dataclass(frozen=True, kw_only=True)
class APGD:
    r"""Gradient ascent with momentum whose step is halved, example by example, when it stops paying.

    .. math::
        u &= \Pi_S\bigl(z_t + \eta_t\, s(\nabla\ell(z_t))\bigr) \\
        z_{t+1} &= \Pi_S\bigl(z_t + \tfrac34 (u - z_t) + \tfrac14 (z_t - z_{t-1})\bigr)

    :math:`\eta_0 = 2\epsilon`. At checkpoints, which come at shrinking distances (22, 19, 16, ... and at least 6 % of
    the steps), an example goes back to its best point with half the step if at most three quarters of the steps since
    the last checkpoint raised its loss, or if neither its step nor its best loss has changed since then. In the norm
    :math:`\ell_1` the step is sparse instead, see `climb_sparsely`.

    Args:
        threat: the set :math:`S` and its geometry.
        steps: gradient steps per example and restart; one gradient more is needed at the start.
        loss: per-example loss to climb.
        restarts: how often to start anew.
        until_lost: an example whose attack has succeeded keeps that point and leaves the batch.

    Reference:
        Croce, Hein, Reliable Evaluation of Adversarial Robustness with an Ensemble of Diverse Parameter-free Attacks,
        ICML 2020, arXiv:2003.01690, section 3. Differs: the start is on the surface of the ball in a direction uniform
        in the cube for every norm, and the first checkpoint compares its first step with the start.
    """

    access: ClassVar = Access.GRADIENTS
    persistent: ClassVar = True

    threat: Threat
    steps: int = 100
    loss: Loss = cross_entropy
    restarts: int = 1
    until_lost: bool = True

    def __post_init__(self) -> None:
        require_metric_threat("apgd", self.threat)
        if self.steps < 1 or self.restarts < 1:
            raise ValueError(f"steps and restarts must be at least 1, got {self.steps} and {self.restarts}")

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The best point found for each example."""
        front = Front(model, x, Aim.of(self.loss, y, target), streams(rng, x), leave=self.until_lost)
        if self.until_lost:
            front.look(x)
        for restart in range(self.restarts):
            climb(front, self.threat, self.steps, f"restart {restart}")
        return front.best_points


def climb(front: Front, threat: Threat, steps: int, name: str) -> None:
    """One run of Auto-PGD on the examples still standing."""
    if not len(front):
        return
    rng = front.rng.split(name)
    if isinstance(threat, L1):
        climb_sparsely(front, threat, steps, rng)
        return
    z = surface_sample(threat, front.x, rng)
    values, grad, stay = front.differentiate(z)
    state = State.at(z, values, grad, step=2 * threat.eps).select(stay)
    checks, last = checkpoints(steps), 0
    for step in range(1, steps + 1):
        if not len(front):
            return
        share = 1.0 if step == 1 else MOMENTUM
        ahead = threat.project(state.z + per_example(state.step, z) * threat.steepest(state.grad, state.z), front.x)
        mixed = state.z + share * (ahead - state.z) + (1 - share) * (state.z - state.previous)
        z = threat.project(mixed, front.x)
        values, grad, stay = front.differentiate(z)
        state = state.moved(z, values, grad).select(stay)
        if step in checks:
            state, last = state.adapted(step - last), step


def checkpoints(steps: int) -> list[int]:
    """The steps after which step sizes are reconsidered, in order."""
    interval, shrink, least = (max(int(share * steps), 1) for share in (0.22, 0.03, 0.06))
    places, place = [], interval
    while place <= steps:
        places.append(place)
        interval = max(interval - shrink, least)
        place += interval
    return places


def surface_sample(threat: Threat, x: Tensor, rng: Streams) -> Tensor:
    """A random point at distance eps, then clipped to the box."""
    direction = rng.uniform(x).mul_(2).sub_(1)
    length = threat.distance(direction, torch.zeros_like(direction))
    return (x + direction * per_example(threat.eps / length, x)).clamp_(0, 1)


@dataclass(frozen=True)
class State:
    """What Auto-PGD remembers of each example: where it is, its best point, and how its step has paid."""

    z: Tensor
    previous: Tensor
    value: Tensor
    grad: Tensor
    best: Tensor
    best_value: Tensor
    best_grad: Tensor
    step: Tensor
    rises: Tensor  # steps since the last checkpoint that raised the loss
    checked_value: Tensor  # best loss at the last checkpoint
    halved: Tensor  # whether the step was halved there

    @classmethod
    def at(cls, z: Tensor, value: Tensor, grad: Tensor, *, step: float) -> State:
        """The state at the start."""
        rises, steps, halved = torch.zeros_like(value), torch.full_like(value, step), torch.ones_like(value).bool()
        return cls(z, z, value, grad, z, value, grad, steps, rises, value, halved)

    def select(self, stay: Tensor | None) -> State:
        """Only those who stay."""
        return self if stay is None else State(*[getattr(self, f.name)[stay] for f in fields(self)])

    def moved(self, z: Tensor, value: Tensor, grad: Tensor) -> State:
        """After a step to `z`."""
        better = value > self.best_value
        wide = per_example(better, z)
        return replace(
            self,
            z=z,
            previous=self.z,
            value=value,
            grad=grad,
            best=torch.where(wide, z, self.best),
            best_value=torch.where(better, value, self.best_value),
            best_grad=torch.where(wide, grad, self.best_grad),
            rises=self.rises + (value > self.value),
        )

    def adapted(self, interval: int) -> State:
        """Back to the best point with half the step, where the last `interval` steps did not pay."""
        stuck = ~self.halved & (self.checked_value >= self.best_value)
        halve = (self.rises <= RISES * interval) | stuck
        wide = per_example(halve, self.z)
        return replace(
            self,
            z=torch.where(wide, self.best, self.z),
            grad=torch.where(wide, self.best_grad, self.grad),
            step=torch.where(halve, self.step / 2, self.step),
            rises=torch.zeros_like(self.rises),
            checked_value=self.best_value,
            halved=halve,
        )
