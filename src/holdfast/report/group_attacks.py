"""Attacks on groups side by side: what each breaks, on which examples two of them disagree, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from holdfast.hierarchy import Border
from holdfast.report.runs import RunData
from holdfast.report.shares import counted_share
from holdfast.results.groups import across
from holdfast.results.recorded_checks import Budget, Check, fraction
from holdfast.show.numbers import count, decimal
from holdfast.show.table import Cell, Table
from holdfast.statistics import mcnemar


@dataclass(frozen=True)
class Attempt:
    """What an attack did to the groups of the examples.

    Args:
        check: the attack.
        held: for each example, whether its group is still right.
        gradients: backward passes per example.
        queries: forward passes per example.
        seconds: in total.
    """

    check: Check
    held: dict[int, bool]
    gradients: float
    queries: float
    seconds: float


def attack_tables(run: RunData, border: Border) -> list[Table]:
    """A table for each threat in which a run has several attacks that recorded their gradients."""
    rows = across(run.main_rows, border)
    attempts = [_attempt(check, rows) for check in run.main_checks if check.threat]
    threats: dict[Budget, list[Attempt]] = {}
    for attempt in attempts:
        if attempt is not None and attempt.check.threat is not None:
            threats.setdefault(attempt.check.threat, []).append(attempt)
    return [_table(run, border, threat, some) for threat, some in threats.items() if len(some) > 1]


def _attempt(check: Check, rows: pl.DataFrame) -> Attempt | None:
    own = rows.filter(pl.col("check") == check.name)
    if own["gradients"].null_count():
        return None
    means = own.select(pl.col("gradients", "queries").mean(), pl.col("seconds").sum()).row(0)
    return Attempt(check, dict(own.select("example", "correct").iter_rows()), *means)


def _table(run: RunData, border: Border, threat: Budget, attempts: list[Attempt]) -> Table:
    """A row for each attack, the most gradients last: the reference for all others."""
    ordered = sorted(attempts, key=lambda one: one.gradients)
    reference = ordered[-1]
    rows = [(one.check.name, _cells(one, reference)) for one in ordered]
    where = f"{run.label}, {run.weights[0]} weights, {threat.axis} eps={fraction(threat.size)}, {border.name}"
    caption = (
        f"{where}: attacks beside the one with the most gradients, {reference.check.name}, and examples that only "
        "one of the two breaks."
    )
    columns = (
        "Right",
        "Only this breaks",
        "Only that breaks",
        "Gradients per example",
        "Queries per example",
        "Seconds",
    )
    return Table(caption, "Attack", columns, rows)


def _cells(one: Attempt, reference: Attempt) -> list[Cell]:
    held = counted_share(sum(one.held.values()), len(one.held)).cell()
    costs = [Cell(decimal(value), value=value) for value in (one.gradients, one.queries, one.seconds)]
    common = sorted(set(one.held) & set(reference.held))
    if one is reference or not common:
        return [held, Cell("—"), Cell("—"), *costs]
    pair = mcnemar([one.held[example] for example in common], [reference.held[example] for example in common])
    discordant = [Cell(count(number), value=number) for number in (pair.only_second, pair.only_first)]
    return [held, *discordant, *costs]
