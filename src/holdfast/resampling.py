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
    generator = np.random.Generator(np.random.PCG64(0))  # the one seed outside rng.py, which needs torch
    values = [statistic(*(generator.integers(size, size=size) for size in sizes)) for _ in range(draws)]
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < draws / 2:
        return None
    low, high = np.quantile(finite, (alpha / 2, 1 - alpha / 2))
    return Interval(float(low), float(high))


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
