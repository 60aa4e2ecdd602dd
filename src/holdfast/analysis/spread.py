"""Mean and spread of a list of numbers, without torch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The mean of a sample and its uncertainty.

    Args:
        mean: of the sample.
        deviation: standard deviation of the sample; None for one number, which has none.
        half: half of the 95 % normal interval of the mean; None for one number.
    """

    mean: float
    deviation: float | None
    half: float | None


def spread(values: Sequence[float]) -> Spread:
    """Mean, deviation and interval."""
    if len(values) == 1:
        return Spread(values[0], None, None)
    deviation = statistics.stdev(values)
    return Spread(statistics.fmean(values), deviation, 1.959964 * deviation / math.sqrt(len(values)))


def give_or_take(half: float | None, write: Callable[[float], str]) -> str:
    """Half an interval as text after a mean: one number says nothing of how far its mean is off."""
    return "± ?" if half is None else f"± {write(half)}"
