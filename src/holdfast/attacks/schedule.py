"""Step sizes that change along a run."""

from __future__ import annotations

import math
from typing import Protocol


class StepSchedule(Protocol):
    """The share of a run that is over, in [0, 1), to a factor of its step size."""

    def __call__(self, progress: float, /) -> float:
        """The factor."""
        ...


def constant(progress: float) -> float:
    """Always 1."""
    return 1.0


def linear(progress: float) -> float:
    r""":math:`1 - p`: down to nothing."""
    return 1 - progress


def cosine(progress: float) -> float:
    r""":math:`(1 + \cos \pi p) / 2`: down to nothing, slowly at either end."""
    return (1 + math.cos(math.pi * progress)) / 2


def halving(progress: float) -> float:
    r""":math:`2^{-\lfloor 4p \rfloor}`: halved after each quarter."""
    return 0.5 ** math.floor(4 * progress)


def annealed(first: float, last: float, step: int, steps: int) -> float:
    r""":math:`b + (a - b)(1 + \cos(\pi t / T)) / 2`: from `first` at step 0 towards `last` at step `steps`."""
    return last + (first - last) * (1 + math.cos(math.pi * step / steps)) / 2
