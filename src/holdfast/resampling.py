"""Bootstrap intervals and rank correlations; the same data have the same interval to the bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.statistics import Interval

Rows = NDArray[np.int64]
"""Which units a draw consists of, with repetitions."""

DRAWS = 2_000


def bootstrap(statistic: Callable[..., float], *sizes: int, draws: int = DRAWS, alpha: float = 0.05) -> Interval | None:
    """The percentile interval of a statistic under resampling of units; None where too few draws have a value.

    Args:
        statistic: of the rows drawn of each group; NaN where it has no value.
        sizes: number of units of each group; groups are drawn apart.
        draws: how often.
        alpha: probability of both tails together.

    Reference:
        Efron, Better bootstrap confidence intervals, Journal of the American Statistical Association 82, 1987.
    """
    values = _resampled(statistic, sizes, draws)
    if values is None:
        return None
    low, high = np.quantile(values, (alpha / 2, 1 - alpha / 2))
    return Interval(float(low), float(high))


def student_interval(
    statistic: Callable[..., float], *sizes: int, draws: int = DRAWS, alpha: float = 0.05
) -> Interval | None:
    r"""The value of a statistic on all units, plus and minus a quantile of Student's t times its resampled deviation.

    For a few units, of which percentiles of draws cover too little: with :math:`n` units in the smallest group, the
    deviation of the draws is too small by :math:`\sqrt{(n - 1)/n}`, and t has :math:`n - 1` degrees of freedom.

    Args:
        statistic: of the rows drawn of each group; NaN where it has no value.
        sizes: number of units of each group; groups are drawn apart.
        draws: how often.
        alpha: probability of both tails together.

    Returns:
        The interval; None where a group has one unit, or where too few draws have a value.

    Reference:
        Hesterberg, What teachers should know about the bootstrap, The American Statistician 69, 2015.
    """
    from scipy.stats import t

    fewest, value = min(sizes), statistic(*map(np.arange, sizes))
    if fewest < 2 or not math.isfinite(value) or (values := _resampled(statistic, sizes, draws)) is None:
        return None
    half = float(t.ppf(1 - alpha / 2, fewest - 1)) * float(np.std(values)) * math.sqrt(fewest / (fewest - 1))
    return Interval(value - half, value + half)


def _resampled(statistic: Callable[..., float], sizes: Sequence[int], draws: int) -> list[float] | None:
    """Values of a statistic on resampled units; None where less than half of the draws have one."""
    generator = np.random.Generator(np.random.PCG64(0))  # the one seed outside rng.py, which needs torch
    values = [statistic(*(generator.integers(size, size=size) for size in sizes)) for _ in range(draws)]
    finite = [value for value in values if math.isfinite(value)]
    return None if len(finite) < draws / 2 else finite


def ranks(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """The ranks of values from 1 on; equal values share the mean of theirs."""
    array = np.asarray(values, dtype=np.float64)
    _, place, counts = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: NDArray[np.float64] = (last - (counts - 1) / 2)[place]
    return mean


def rank_correlation(x: Sequence[float] | NDArray[np.float64], y: Sequence[float] | NDArray[np.float64]) -> float:
    """Spearman's rank correlation; NaN where one side has no two different values."""
    if len(x) != len(y) or not len(x):
        raise ValueError(f"expected as many values on one side as on the other, got {len(x)} and {len(y)}")
    if not np.isfinite([*map(float, x), *map(float, y)]).all():
        raise ValueError("expected finite values, got others")
    first, second = (each - each.mean() for each in (ranks(x), ranks(y)))
    lengths = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / lengths if lengths else math.nan


def least_squares(
    columns: Sequence[Any], y: Sequence[float] | NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Coefficients of columns in the best linear fit, with a constant before them, and the share of variance explained.

    The share is NaN where `y` is constant. Columns that others determine get the shortest coefficients.
    """
    target = np.asarray(y, dtype=np.float64)
    design = np.column_stack([np.ones(len(target)), *(np.asarray(column, dtype=np.float64) for column in columns)])
    coefficients: NDArray[np.float64] = np.asarray(np.linalg.lstsq(design, target, rcond=None)[0], dtype=np.float64)
    residual, spread = target - design @ coefficients, target - target.mean()
    whole = float(spread @ spread)
    return coefficients, 1 - float(residual @ residual) / whole if whole else math.nan
