"""Step sizes that change along a run."""

from __future__ import annotations

import math


def cosine(first: float, last: float, step: int, steps: int) -> float:
    r""":math:`b + (a - b)(1 + \cos(\pi t / T)) / 2`: from `first` at step 0 towards `last` at step `steps`."""
    return last + (first - last) * (1 + math.cos(math.pi * step / steps)) / 2
