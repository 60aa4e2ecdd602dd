"""The worst case of every threat as the page shows it: for each network a share, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from holdfast.analysis.checks import Budget
from holdfast.analysis.worst_case import threats, title, within, worst_case
from holdfast.report.runs import RunData
from holdfast.report.shares import Share, share_of
from holdfast.report.unfinished import absent


@dataclass(frozen=True)
class WorstCase:
    """One network in one threat.

    Args:
        threat: norm and eps.
        checks: that count, clean images included.
        share: of the examples that survive all of them; None if no example went through all.
        examples: how many went through all.
        missing: how many others the network was checked on.
    """

    threat: Budget
    checks: int
    share: Share | None = None
    examples: int = 0
    missing: int = 0

    @property
    def title(self) -> str:
        """What tables call it."""
        return title(self.threat)


def all_threats(runs: Sequence[RunData]) -> tuple[Budget, ...]:
    """Every threat that a run was attacked in."""
    return threats(pl.concat([run.rows for run in runs]))


def worst_cases(run: RunData, weights: str, among: Sequence[Budget] | None = None) -> tuple[WorstCase, ...]:
    """The threats that some weights of a run were attacked in: all, or those `among` a choice."""
    rows = run.rows.filter(pl.col("weights") == weights)
    cases = (_case(run, weights, rows, threat) for threat in (threats(rows) if among is None else among))
    return tuple(case for case in cases if case.checks)


def _case(run: RunData, weights: str, rows: pl.DataFrame, threat: Budget) -> WorstCase:
    counted = within(rows, threat)
    found = worst_case(rows, [threat])
    if found.is_empty():
        return WorstCase(threat, counted["check"].n_unique())
    row = found.row(0, named=True)
    share = share_of(row, absent=absent(run, weights, threat))
    return WorstCase(threat, row["checks"], share, row["examples"], rows["example"].n_unique() - row["examples"])
