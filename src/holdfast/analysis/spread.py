"""Mean and spread of a list of numbers, without torch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spread:
    """What a sample says of its mean.

    Args:
        mean: of the sample.
        deviation: standard deviation of the sample, 0 for one number.
        half: half of the 95 % normal interval of the mean.
    """

    mean: float
    deviation: float
    half: float


def spread(values: Sequence[float]) -> Spread:
    """Mean, deviation and interval."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return Spread(statistics.fmean(values), deviation, 1.959964 * deviation / math.sqrt(len(values)))


def by_class(result: Mapping[str, Any]) -> dict[int, list[float]]:
    """The values of a result's examples by their predicted class, `source`, in order."""
    groups: dict[int, list[float]] = {}
    for value, source in zip(result["value"], result["source"], strict=True):
        groups.setdefault(source, []).append(value)
    return dict(sorted(groups.items()))
