r"""Learning-rate schedules: pure functions of the step, so that nothing needs saving to resume.

Each maps a time :math:`t` in epochs (fractions included) and the number of epochs :math:`T` to a multiplier of the
optimizer's learning rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol


class Schedule(Protocol):
    """Time and total, both in epochs, to a multiplier of the learning rate."""

    def __call__(self, time: float, total: float) -> float:
        """The multiplier."""
        ...


@dataclass(frozen=True)
class Constant:
    """The multiplier 1 at all times."""

    def __call__(self, time: float, total: float) -> float:
        """The multiplier."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class MultiStep:
    r""":math:`\gamma^{\#\{m \le t\}}`.

    Args:
        milestones: epochs at which the rate drops.
        gamma: factor of each drop.
    """

    milestones: tuple[float, ...]
    gamma: float = 0.1

    def __post_init__(self) -> None:
        if list(self.milestones) != sorted(self.milestones) or not self.gamma > 0:
            raise ValueError(f"milestones must rise and gamma be positive, got {self.milestones} and {self.gamma}")

    def __call__(self, time: float, total: float) -> float:
        """The multiplier."""
        return float(self.gamma ** sum(milestone <= time for milestone in self.milestones))


@dataclass(frozen=True, kw_only=True)
class Cosine:
    r""":math:`f + (1 - f)\,(1 + \cos(\pi t / T)) / 2`.

    Args:
        floor: :math:`f`, the multiplier at the end.
    """

    floor: float = 0.0

    def __call__(self, time: float, total: float) -> float:
        """The multiplier."""
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * min(time / total, 1.0))) / 2


@dataclass(frozen=True, kw_only=True)
class CosineRestarts:
    """A cosine over `first` epochs, then again over `factor` times as many, and so on.

    Args:
        first: epochs of the first cycle.
        factor: growth of the cycles.
        floor: the multiplier at the end of each.

    Reference:
        Loshchilov, Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, ICLR 2017, arXiv:1608.03983.
    """

    first: float
    factor: float = 2.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not (self.first > 0 and self.factor >= 1):
            raise ValueError(f"first must be positive and factor at least 1, got {self.first} and {self.factor}")

    def __call__(self, time: float, total: float) -> float:
        """The multiplier."""
        length = self.first
        while time >= length:
            time, length = time - length, length * self.factor
        return Cosine(floor=self.floor)(time, length)


@dataclass(frozen=True, kw_only=True)
class OneCycle:
    """Linear up to the full rate, then linear down to zero.

    Args:
        peak: share of the time at which the full rate is reached.
        start: the multiplier at the beginning.

    Reference:
        Smith, Topin, Super-Convergence: Very Fast Training of Neural Networks Using Large Learning Rates, 2017,
        arXiv:1708.07120.
    """

    peak: float = 0.3
    start: float = 0.04

    def __post_init__(self) -> None:
        if not 0 < self.peak < 1:
            raise ValueError(f"peak must lie between 0 and 1, got {self.peak}")

    def __call__(self, time: float, total: float) -> float:
        """The multiplier."""
        share = min(time / total, 1.0)
        if share < self.peak:
            return self.start + (1 - self.start) * share / self.peak
        return (1 - share) / (1 - self.peak)


def multiplier(schedule: Schedule, warmup: float, step: int, per_epoch: int, epochs: int) -> float:
    """The schedule at the start of a step, times a linear rise that reaches 1 with the last step of `warmup` epochs."""
    rise = min(1.0, (step + 1) / (warmup * per_epoch)) if warmup > 0 else 1.0
    return schedule(step / per_epoch, epochs) * rise
