"""The worst case of every threat as the page shows it: for each network a share, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from holdfast.report.runs import RunData
from holdfast.report.shares import Share, share_of
from holdfast.report.unfinished import absent
from holdfast.results.recorded_checks import Budget
from holdfast.results.worst_case import threats, title, within, worst_case


@dataclass(frozen=True)
class WorstCase:
    """One network in one threat.

    Args:
        threat: norm and eps.
        checks: names of those that count, clean images included.
        share: of the examples that survive all of them; None if no example went through all.
        examples: how many went through all.
        missing: how many others the network was checked on.
    """

    threat: Budget
    checks: tuple[str, ...]
    share: Share | None = None
    examples: int = 0
    missing: int = 0

    @property
    def title(self) -> str:
        """What tables call it."""
        return title(self.threat)


def all_threats(runs: Sequence[RunData]) -> tuple[Budget, ...]:
    """Every threat that a run was attacked in."""
    return threats(pl.concat([run.attempts for run in runs]))


def worst_cases(run: RunData, weights: str, among: Sequence[Budget] | None = None) -> tuple[WorstCase, ...]:
    """The threats that some weights of a run were attacked in: all, or those `among` a choice."""
    rows = run.attempts.filter(pl.col("weights") == weights)
    total = run.rows.filter(pl.col("weights") == weights)["example"].n_unique()
    cases = []
    for threat in threats(rows) if among is None else among:
        row = next(worst_case(rows, [threat]).iter_rows(named=True), None)
        if row is not None:
            share = share_of(row, absent=absent(run, weights, threat))
            cases.append(WorstCase(threat, tuple(row["checks"]), share, row["examples"], total - row["examples"]))
        elif checks := tuple(within(rows, threat)["check"].unique().sort()):
            cases.append(WorstCase(threat, checks))
    return tuple(cases)
