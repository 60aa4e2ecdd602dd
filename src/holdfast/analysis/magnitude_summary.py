r"""Sizes of the gradients of two classifiers in few numbers: quantiles of each class and correlations; without torch.

Mixtures weigh logits by :math:`R_i = \|\nabla g_i\|_* / \|\nabla h_i\|_*`. Were the two sizes of a class proportional
over the images, the ratio would be a number and the mixture an average of logits.

Reference:
    Bai, Anderson, Sojoudi, Avoiding the Accuracy-Robustness Trade-off of Classifiers via Local Adaptive Smoothing,
    section 4.1 and figures 2, 3 and 10.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

QUANTILES = 41
"""Numbers that stand for the distribution of one class."""


@dataclass(frozen=True)
class MagnitudeSummary:
    """Gradients at one kind of points.

    Args:
        standard: equally spaced quantiles of each class of the accurate classifier, from the least to the largest.
        robust: of the robust one.
        means: mean size over images and classes, of the two.
        correlation: of all classes of the accurate classifier, then of the robust one, over the images; None where one
            does not vary.
        within_standard: mean correlation of two classes of the accurate classifier, None where there is none.
        within_robust: of the robust one.
        between: of a class of the one and a class of the other.
        ratio: deviation over mean of the ratio of the two sizes, median over the classes; None where one is 0.
    """

    standard: list[list[float]]
    robust: list[list[float]]
    means: tuple[float, float]
    correlation: list[list[float | None]]
    within_standard: float | None
    within_robust: float | None
    between: float | None
    ratio: float | None


def summarise_magnitudes(rows: pl.DataFrame, points: str) -> MagnitudeSummary:
    """The gradients at one kind of points.

    Args:
        rows: as `holdfast analyse mixing` stores them.
        points: a key of `mixing_plan.POINTS`.
    """
    standard, robust = (
        np.asarray(rows[f"{who}_{points}"].to_list(), dtype=np.float64) for who in ("standard", "robust")
    )
    found, classes = correlation(np.concatenate((standard, robust), axis=1)), standard.shape[1]
    others = ~np.eye(classes, dtype=np.bool_)
    return MagnitudeSummary(
        standard=quantiles(standard),
        robust=quantiles(robust),
        means=(float(standard.mean()), float(robust.mean())),
        correlation=[[None if np.isnan(value) else float(value) for value in row] for row in found],
        within_standard=_mean(found[:classes, :classes][others]),
        within_robust=_mean(found[classes:, classes:][others]),
        between=_mean(found[:classes, classes:].flatten()),
        ratio=ratio_spread(standard, robust),
    )


def quantiles(values: Numbers, count: int = QUANTILES) -> list[list[float]]:
    """Equally spaced quantiles of every column."""
    found: list[list[float]] = np.quantile(values, np.linspace(0, 1, count), axis=0).T.tolist()
    return found


def correlation(values: Numbers) -> Numbers:
    """Correlations of the columns over the rows; not a number where a column does not vary."""
    centred = values - values.mean(axis=0)
    # what rounding leaves of a column of equal numbers is no variation
    varies = np.ptp(values, axis=0) > 1e-12 * np.abs(values).max(axis=0, initial=0)
    length = np.where(varies, np.linalg.norm(centred, axis=0), np.nan)
    unit = centred / length
    found: Numbers = np.clip(unit.T @ unit, -1, 1)
    return found


def ratio_spread(standard: Numbers, robust: Numbers) -> float | None:
    """Deviation over mean of the ratio of the two sizes, median over the classes; None where one is 0."""
    if not (robust > 0).all():
        return None
    ratio = standard / robust
    means = ratio.mean(axis=0)
    return float(np.median(ratio.std(axis=0) / means)) if (means > 0).all() else None


def _mean(values: Numbers) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None
