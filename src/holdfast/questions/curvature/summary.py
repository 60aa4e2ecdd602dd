"""Curvature of many examples in few numbers, and how it relates to accuracy under noise; without torch.

Reference:
    Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection, TMLR,
    sections 7.3 and 7.4 (figures 8, 9 and 10).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from holdfast.statistics import Interval, Spread, spread, wilson

Numbers = NDArray[np.float64]
SHARES = tuple(part / 10 for part in range(1, 11))


@dataclass(frozen=True)
class Kept:
    """Accuracy under noise of the examples of lowest curvature.

    Args:
        share: of the examples that are kept.
        examples: how many that are.
        accuracy: mean share of their noisy copies that is right.
        interval: Wilson's, as if each example were one copy: it is not too short however the copies agree.
    """

    share: float
    examples: int
    accuracy: float
    interval: Interval


def accuracy_of_lowest(
    curvature: Numbers, right: Numbers, draws: int, *, shares: Sequence[float] = SHARES
) -> list[Kept]:
    """Figure 8. The paper keeps values strictly below a quantile, so that its last point lacks the largest; not here.

    Args:
        curvature: of each example.
        right: noisy copies of each example that are right.
        draws: copies of each.
        shares: to keep, each above 0 and at most 1; at least one example is kept.
    """
    order = np.argsort(curvature, kind="stable")
    kept = []
    for share in shares:
        count = max(1, math.ceil(round(share * len(order), 9)))  # 0.07 * 100 is a little more than 7
        mean = float(np.mean(right[order[:count]]) / draws)
        kept.append(Kept(share, count, mean, wilson(round(mean * count), count)))
    return kept


@dataclass(frozen=True)
class Group:
    """Examples with as many right answers under noise.

    Args:
        right: answers that are right.
        curvature: its mean with spread.
        examples: how many examples.
    """

    right: int
    curvature: Spread
    examples: int


def curvature_by_right_answers(curvature: Numbers, right: Numbers) -> list[Group]:
    """Figure 9: mean curvature by the number of right answers under noise, for the numbers that occur."""
    groups = []
    for number in np.unique(right):
        values = curvature[right == number].tolist()
        groups.append(Group(int(number), spread(values), len(values)))
    return groups


@dataclass(frozen=True)
class Correlation:
    """Pearson's correlation coefficient.

    Args:
        value: the coefficient; None where one of the two does not vary.
        interval: 95 %, by Fisher's transform; None for fewer than 4 points or a perfect correlation.
        points: how many.
    """

    value: float | None
    interval: Interval | None
    points: int


def pearson(first: Sequence[float] | Numbers, second: Sequence[float] | Numbers) -> Correlation:
    r"""Correlation with the interval :math:`\tanh(\mathrm{artanh}\, r \pm z / \sqrt{n - 3})`.

    Reference:
        Fisher, On the Probable Error of a Coefficient of Correlation Deduced from a Small Sample, Metron 1921.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if len(a) < 2 or not (np.ptp(a) > 0 and np.ptp(b) > 0):
        return Correlation(None, None, len(a))
    a, b = a - a.mean(), b - b.mean()
    value = float(np.clip((a / np.linalg.norm(a)) @ (b / np.linalg.norm(b)), -1, 1))
    if len(a) < 4 or abs(value) == 1:
        return Correlation(value, None, len(a))
    half = NormalDist().inv_cdf(0.975) / math.sqrt(len(a) - 3)
    low, high = (math.tanh(math.atanh(value) + sign * half) for sign in (-1, 1))
    return Correlation(value, Interval(low, high), len(a))


def box(curvature: Numbers, *, share: float = 0.9) -> tuple[list[float], int]:
    """Figure 10: the 5 %, 25 %, 50 %, 75 % and 95 % quantiles of the lowest values, and how many these are.

    The paper takes 90 %, as many as its best method gets right under noise, and does not say what its whiskers are.
    """
    kept = np.sort(curvature)[: max(1, math.ceil(round(share * len(curvature), 9)))]
    return np.quantile(kept, (0.05, 0.25, 0.5, 0.75, 0.95)).tolist(), len(kept)


def median_ratio(above: Numbers, below: Numbers) -> float | None:
    """Median of the ratios to a magnitude; None where all magnitudes are 0."""
    some = below != 0
    return float(np.median(above[some] / np.abs(below[some]))) if some.any() else None
