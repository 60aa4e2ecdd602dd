"""Summaries of a ledger's rows: accuracies with intervals, yields, confusion, and paired comparisons."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holdfast.statistics import Interval, Paired, mcnemar, wilson


def not_attacked() -> pl.Expr:
    """Examples that count as right although the attack, or a component of it, could not run on them."""
    return pl.col("correct") & pl.col("not_run").is_not_null()


def waiting() -> pl.Expr:
    """Examples that count as right although a component of the check has not run on them yet."""
    missing = pl.col("steps").list.eval(pl.element().struct.field("broke").is_null()).list.any()
    return pl.col("correct") & missing.fill_null(False)


def unsettled() -> pl.Expr:
    """Examples that count as right although not everything ran on them: they wait, or could not be attacked."""
    return waiting() | not_attacked()


def reasons() -> pl.Expr:
    """Why examples could not be attacked, in one text for a group."""
    return pl.col("not_run").filter(not_attacked()).unique().sort().str.join("; ")


def accuracies(rows: pl.DataFrame) -> pl.DataFrame:
    """Accuracy with Wilson interval of every run, weights and check.

    Distance and queries are means over the examples, seconds a sum. Where `unsettled` is not zero, as many examples
    wait for a component of a composed attack or could not be attacked, and the accuracy is only an upper bound;
    `not_attacked` counts the latter, and `reason` says why. The accuracy of a certifier is that of the classifier it
    certifies, `abstained` counts the examples it says nothing about, and `radius` is the average certified radius, in
    which wrong answers count as 0; null for other checks.
    """
    groups = rows.group_by("run", "weights", "check", "method", "params", "family", maintain_order=True).agg(
        examples=pl.len(),
        correct=pl.col("correct").sum(),
        distance=pl.col("distance").mean(),
        queries=pl.col("queries").mean(),
        seconds=pl.col("seconds").sum(),
        unsettled=unsettled().sum(),
        not_attacked=not_attacked().sum(),
        reason=reasons(),
        abstained=(pl.col("prediction") < 0).sum(),
        radius=(pl.col("radius") * pl.col("correct")).mean(),
    )
    return with_interval(groups)


def is_certificate() -> pl.Expr:
    """Rows of certifiers: they prove something about a point instead of looking for a worse one."""
    return pl.col("radius").is_not_null()


def yields(rows: pl.DataFrame) -> pl.DataFrame:
    """What each component of each composed attack did: the yield table.

    Columns: `tried` examples, how many it `broke` of them, how many it was the first to break (`credited`), how many
    wait for it (`waiting`), its `queries` and `seconds` in total, and `rate`, examples broken per second.
    """
    steps = rows.filter(pl.col("steps").list.len() > 0).explode("steps")
    one = {name: pl.col("steps").struct.field(name) for name in ("step", "broke", "queries", "seconds")}
    groups = steps.group_by("run", "weights", "check", one["step"].alias("step"), maintain_order=True).agg(
        tried=one["broke"].is_not_null().sum(),
        broke=one["broke"].sum(),
        credited=(pl.col("by") == one["step"]).sum(),
        waiting=(one["broke"].is_null() & pl.col("correct")).sum(),
        queries=one["queries"].sum(),
        seconds=one["seconds"].sum(),
    )
    ran = pl.when(pl.col("seconds") > 0).then(pl.col("seconds"))
    return groups.with_columns(rate=pl.col("broke") / ran)


def per_class(rows: pl.DataFrame) -> pl.DataFrame:
    """Accuracy with interval of every class in every check."""
    groups = rows.group_by("run", "weights", "check", "label", maintain_order=True).agg(
        examples=pl.len(), correct=pl.col("correct").sum()
    )
    return with_interval(groups.sort("run", "weights", "check", "label"))


def confusion(rows: pl.DataFrame, classes: int) -> list[list[int]]:
    """Counts by label (row) and prediction (column) of the rows given."""
    counts = [[0] * classes for _ in range(classes)]
    for label, prediction, count in rows.group_by("label", "prediction").len().iter_rows():
        if 0 <= prediction < classes:
            counts[label][prediction] = count
    return counts


def compared(rows: pl.DataFrame, first: str, second: str) -> Iterator[tuple[str, Paired]]:
    """Paired comparison of two runs, check by check, on the examples both saw."""
    left, right = rows.filter(pl.col("run") == first), rows.filter(pl.col("run") == second)
    for check in left["check"].unique(maintain_order=True):
        pair = left.filter(pl.col("check") == check).join(
            right.filter(pl.col("check") == check), on="example", how="inner", suffix="_second"
        )
        if len(pair):
            yield check, mcnemar(pair["correct"].to_list(), pair["correct_second"].to_list())


def with_interval(groups: pl.DataFrame) -> pl.DataFrame:
    """Add accuracy, low and high (95 %, Wilson) to a table with columns correct and examples."""
    counts: list[tuple[int, int]] = groups.select("correct", "examples").rows()
    intervals: list[Interval] = [wilson(correct, examples) for correct, examples in counts]
    return groups.with_columns(
        # Not by polars, which multiplies by the inverse of a constant column: equal counts give equal accuracies.
        accuracy=pl.Series([correct / examples for correct, examples in counts], dtype=pl.Float64),
        low=pl.Series([i.low for i in intervals], dtype=pl.Float64),
        high=pl.Series([i.high for i in intervals], dtype=pl.Float64),
    )
