"""What the rows of a ledger come to, as one number."""

from __future__ import annotations

import polars as pl

from holdfast.checks import Check
from holdfast.errors import LedgerError
from holdfast.recipe import describe
from holdfast.search.schema import Goal


def summary(rows: pl.DataFrame, goal: Goal) -> float:
    r"""The value of a goal with checks.

    With :math:`c_{ij}` whether example :math:`i` is right in check :math:`j` of :math:`m`, the accuracy is

    .. math:: \frac1n\sum_i \min_j c_{ij} \quad\text{(worst)}, \qquad \frac1{nm}\sum_{i,j} c_{ij} \quad\text{(mean)},

    the error 1 minus it, the radius a mean over examples, in which wrong answers count as 0, of the least or the mean
    radius over the checks, and the loss likewise with the greatest.

    Args:
        rows: of the ledger; those of other checks are left out.
        goal: what to sum up.

    Raises:
        LedgerError: a check has no such quantity, as attacks have no radius.
    """
    labels = [describe(check, Check)[1] for check in goal.checks]
    here = rows.filter(pl.col("check").is_in(labels))
    quantity = {
        "accuracy": pl.col("correct").cast(pl.Float64),
        "error": 1 - pl.col("correct").cast(pl.Float64),
        "loss": pl.col("loss"),
        "radius": pl.col("radius") * pl.col("correct"),
    }[goal.score]
    least = goal.score in ("accuracy", "radius")
    over = pl.col("value").mean() if goal.over == "mean" else pl.col("value").min() if least else pl.col("value").max()
    found = here.with_columns(value=quantity)
    empty = found.filter(pl.col("value").is_null())
    if len(empty):
        raise LedgerError(f"search.objective: '{empty['check'][0]}' has no {goal.score}; choose another score")
    return float(found.group_by("example").agg(over)["value"].mean())  # type: ignore[arg-type]
