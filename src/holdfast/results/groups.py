"""What mistakes are worth in a hierarchy: accuracy of groups, right groups of wrong classes, and severity.

All functions take the rows of a ledger and read its columns `label` and `prediction`, so that a hierarchy may also be
stated after the checks were run. A certifier that abstains predicts no class: it is wrong about class and group.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from holdfast.earlier import with_traits
from holdfast.errors import LedgerError
from holdfast.hierarchy import Border, Hierarchy
from holdfast.results.certified_radii import contradictions
from holdfast.results.recorded_checks import Budget
from holdfast.results.summaries import is_certificate, with_interval
from holdfast.results.worst_case import within
from holdfast.statistics import spread
from holdfast.traits import NETWORK, SMOOTHED, Kind, at_level

CHECK = ("run", "weights", "check")
"""What tells the checks of several networks apart."""


def across(rows: pl.DataFrame, border: Border) -> pl.DataFrame:
    """The same rows as seen from a border: every other query of a ledger then answers about groups.

    An example is right if its prediction does not cross the border. Labels and predictions become groups; those of a
    border without groups become 0, and 1 for predictions that cross. An example that an attack takes to a wrong class
    which does not cross counts as right, although the later components of a composed attack were not tried on it: the
    accuracy of groups under an attack on classes is an upper bound, as all accuracies under attacks are.

    A certificate of classes is one of their groups, too; certificates of groups of other levels are left out.

    Raises:
        LedgerError: if a label or a prediction is none of the classes of the border.
    """
    rows, of_groups = _certificates_at(rows, border)
    label, prediction = _classes(rows, len(border.crossing))
    answered = prediction >= 0
    crosses = ~answered | border.crossing[label, prediction]
    if border.level is None:
        sides = np.zeros_like(label), np.where(answered, crosses, -1)
    else:
        of = np.array(border.level.of)
        groups = np.where(of_groups, prediction, of[prediction])
        crosses = np.where(of_groups, of[label] != prediction, crosses)
        sides = of[label], np.where(answered, groups, -1)
    right = pl.Series("correct", ~crosses, dtype=pl.Boolean)
    steps = {"steps": pl.when("correct").then("steps")} if "steps" in rows.columns else {}  # else none waits
    ranks = {"rank": pl.lit(None, pl.Int32)} if "rank" in rows.columns else {}
    return rows.with_columns(**steps, **ranks).with_columns(
        right, label=pl.Series(sides[0], dtype=pl.Int32), prediction=pl.Series(sides[1], dtype=pl.Int32)
    )


def _certificates_at(rows: pl.DataFrame, border: Border) -> tuple[pl.DataFrame, NDArray[np.bool_]]:
    """The rows without certificates of groups of other levels, and which are of this one: they predict groups."""
    rows = with_traits(rows)
    here = [at_level(about, border.name) for about in (NETWORK, SMOOTHED)] if border.level is not None else []
    of_classes = pl.col("certifies").is_null() | pl.col("certifies").is_in([NETWORK, SMOOTHED])
    rows = rows.filter(of_classes | pl.col("certifies").is_in(here))
    of_groups = rows["certifies"].is_in(here).fill_null(value=False).to_numpy()
    plain = dict(zip(here, (NETWORK, SMOOTHED), strict=False))
    return rows.with_columns(pl.col("certifies").replace(plain)), of_groups


def group_contradictions(rows: pl.DataFrame, hierarchy: Hierarchy) -> pl.DataFrame:
    """Certificates of groups that another check refutes with a prediction of another group, see `contradictions`."""
    of_classes = with_traits(rows).filter(pl.col("certifies").is_in([NETWORK, SMOOTHED]))["check"].unique().implode()
    refuted = [contradictions(across(rows, hierarchy.border(level.name))) for level in hierarchy.levels]
    return pl.concat([contradictions(rows).clear(), *refuted]).filter(~pl.col("check").is_in(of_classes))


def right_group_given_wrong_class(rows: pl.DataFrame, border: Border) -> pl.DataFrame:
    """How often a wrong class does not cross a border, with its Wilson interval, beside the chance level.

    An attack that stops at the first wrong class stops at the nearest, which is in the group of the label more often
    than those further away. Its share is biased and therefore null, as is that of an attack whose end is not recorded.

    Returns:
        A row for each run, weights and check but certificates: `wrong`, examples of a wrong class; `inside`, how many
        of them do not cross; `share` with `low` and `high`, null where no class is wrong or the check `stops_early`;
        and `chance`, what the share would be if wrong classes were drawn evenly for the same examples.
    """
    rows = with_traits(rows.filter(~is_certificate()))
    label, prediction = _classes(rows, len(border.crossing))
    wrong = (prediction >= 0) & (prediction != label)
    classes = len(border.crossing)
    inside = np.array([border.inside(one) for one in range(classes)]) / max(classes - 1, 1)
    ends = pl.lit(None, pl.Boolean) if "to_the_end" not in rows.columns else pl.col("to_the_end")
    counted = rows.with_columns(
        wrong=pl.Series(wrong, dtype=pl.Boolean),
        inside=pl.Series(wrong & ~border.crossing[label, prediction], dtype=pl.Boolean),
        expected=pl.Series(np.where(wrong, inside[label], np.nan), dtype=pl.Float64),
        stops_early=(pl.col("kind") == Kind.ATTACK).fill_null(value=False) & ~ends.fill_null(value=False),
    )
    groups = counted.group_by(*CHECK, maintain_order=True).agg(
        examples=pl.col("wrong").sum(),
        correct=pl.col("inside").sum(),
        chance=pl.col("expected").filter("wrong").mean(),
        stops_early=pl.col("stops_early").any(),
    )
    some, none = groups.filter(pl.col("examples") > 0), groups.filter(pl.col("examples") == 0)
    empty = {name: pl.lit(None, pl.Float64) for name in ("accuracy", "low", "high")}
    shares = pl.concat([with_interval(some), none.with_columns(**empty)])
    unbiased = {
        name: pl.when(~pl.col("stops_early")).then(source)
        for name, source in (("share", "accuracy"), ("low", "low"), ("high", "high"))
    }
    order = groups.select(CHECK)
    return order.join(shares, on=list(CHECK), maintain_order="left").select(
        *CHECK, "stops_early", "chance", wrong="examples", inside="correct", **unbiased
    )


def with_costs(rows: pl.DataFrame, hierarchy: Hierarchy) -> pl.DataFrame:
    """The rows of all checks but certificates, with the column `cost`: the severity of each mistake, 0 if right."""
    rows = rows.filter(~is_certificate() & (pl.col("prediction") >= 0))
    label, prediction = _classes(rows, len(hierarchy.classes))
    return rows.with_columns(cost=pl.Series(hierarchy.costs[label, prediction], dtype=pl.Float64))


def severities(rows: pl.DataFrame, hierarchy: Hierarchy) -> pl.DataFrame:
    """The expected severity of the answers in each check.

    Returns:
        A row for each run, weights and check but certificates: `examples`; `severity`, the mean over all of them, in
        which right answers count 0, with `half` of its 95 % normal interval (null for one example); `given_wrong`, the
        mean over those that cost something (null for none); and `costs`, how many examples cost how much.
    """
    return _expected(with_costs(rows, hierarchy))


def worst_severities(rows: pl.DataFrame, hierarchy: Hierarchy, threat: Budget) -> pl.DataFrame:
    """The same for the costliest mistake that any check of a threat has found for each example.

    Checks count as they do in `holdfast.results.worst_case`. As there, only examples that all of them saw count.
    """
    costs = with_costs(rows, hierarchy).with_columns(correct=pl.col("cost") == 0)
    counted = within(costs, threat).with_columns(checks=pl.col("check").n_unique().over("run", "weights"))
    each = counted.group_by("run", "weights", "example", maintain_order=True).agg(
        pl.col("checks").first(),
        seen=pl.col("check").n_unique(),
        cost=pl.when("correct").then(0.0).otherwise("cost").max(),
    )
    complete = each.filter(pl.col("seen") == pl.col("checks")).with_columns(check=pl.lit("worst case"))
    return _expected(complete)


def _expected(rows: pl.DataFrame) -> pl.DataFrame:
    records: list[tuple[Any, ...]] = []
    for key, part in rows.group_by(*CHECK, maintain_order=True):
        costs: list[float] = part["cost"].to_list()
        mean, wrong = spread(costs), [cost for cost in costs if cost]
        counts = part.group_by("cost").len("examples").sort("cost").to_dicts()
        records.append((*key, len(costs), mean.mean, mean.half, fmean(wrong) if wrong else None, counts))
    return pl.DataFrame(records, schema=dict(EXPECTED), orient="row")


EXPECTED: Mapping[str, Any] = {
    **dict.fromkeys(CHECK, pl.String), "examples": pl.Int64, "severity": pl.Float64, "half": pl.Float64,
    "given_wrong": pl.Float64, "costs": pl.List(pl.Struct({"cost": pl.Float64, "examples": pl.Int64})),
}  # fmt: skip


def _classes(rows: pl.DataFrame, classes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Labels and predictions, of which -1 is none."""
    label, prediction = (rows[name].to_numpy().astype(np.int64) for name in ("label", "prediction"))
    if len(rows) and max(label.max(), prediction.max()) >= classes:
        largest = int(max(label.max(), prediction.max()))
        raise LedgerError(
            f"ledger: expected labels and predictions of the {classes} classes of the hierarchy; got {largest}"
        )
    return label, prediction
