"""What the rows of a ledger come to, as one number."""

from __future__ import annotations

import polars as pl

from holdfast.checks import Check
from holdfast.errors import LedgerError
from holdfast.recipe.plain import describe
from holdfast.results.summaries import accuracies
from holdfast.results.worst_case import largest, within
from holdfast.search.schema import Goal


def summary(rows: pl.DataFrame, goal: Goal) -> float:
    r"""The value of a goal with checks.

    With :math:`c_{ij}` whether example :math:`i` is right in check :math:`j` of :math:`m`, the accuracy is

    .. math:: \frac1n\sum_i \min_j c_{ij} \quad\text{(worst)}, \qquad \frac1{nm}\sum_{i,j} c_{ij} \quad\text{(mean)},

    where attacks that minimise a distance are judged at the largest budget that other attacks of the goal have in their
    norm, if there are any. The error is 1 minus it, the radius a mean over examples, in which wrong answers count as 0,
    of the least or the mean radius over the checks, and the loss likewise with the greatest.

    Args:
        rows: of the ledger; those of other checks are left out.
        goal: what to sum up.

    Raises:
        LedgerError: a check has no such quantity, as attacks have no radius, or an attack could not run on an example:
            counted as right, the examples that nothing attacked would make a network look robust.
    """
    labels = [describe(check, Check)[1] for check in goal.checks]
    here = rows.filter(pl.col("check").is_in(labels))
    quantity = {
        "accuracy": pl.col("correct").cast(pl.Float64),
        "error": 1 - pl.col("correct").cast(pl.Float64),
        "loss": pl.col("loss"),
        "radius": pl.col("radius") * pl.col("correct"),
    }[goal.score]
    _require_attacked(here)
    least = goal.score in ("accuracy", "radius")
    over = pl.col("value").mean() if goal.over == "mean" else pl.col("value").min() if least else pl.col("value").max()
    if goal.over == "worst" and goal.score in ("accuracy", "error"):
        here = _judged(here)
    measured = here.with_columns(value=quantity)
    empty = measured.filter(pl.col("value").is_null())
    if len(empty):
        raise LedgerError(f"search.objective: '{empty['check'][0]}' has no {goal.score}; choose another score")
    return float(measured.group_by("example").agg(over)["value"].mean())  # type: ignore[arg-type]


def _require_attacked(rows: pl.DataFrame) -> None:
    missing = accuracies(rows).filter(pl.col("not_attacked") > 0).select("check", "not_attacked", "examples", "reason")
    for check, number, examples, reason in missing.iter_rows():
        where = f"'{check}' could not run on {number} of {examples} examples ({reason})"
        raise LedgerError(f"search.objective: {where}; choose another check")


def _judged(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows in which attacks say who survives the largest budget of their norm; those of other checks as they are."""
    attacked = [within(rows, threat) for threat in largest(rows)]
    names = {check for frame in attacked for check in frame["check"]}
    return pl.concat([rows.filter(~pl.col("check").is_in(names)), *attacked])
