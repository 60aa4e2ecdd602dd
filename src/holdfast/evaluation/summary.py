"""Results of checks, with the summaries one asks for first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from holdfast.results import SCHEMA, accuracies, yields
from holdfast.results.certified_radii import average_certified_radius
from holdfast.results.worst_case import worst_case
from holdfast.trust import better_than_chance
from holdfast.trust.chance import chance_warnings

CLEAN = "clean"
"""What the ledger calls clean images."""


@dataclass(frozen=True)
class Results:
    """Rows of a ledger with the summaries one asks for first.

    Args:
        rows: one per example and check.
        not_run: examples left out for lack of time, by check and component.
        clean: rows of the clean images, also where no check asked for them.
        warnings: what makes the numbers doubtful, a line each.
    """

    rows: pl.DataFrame
    not_run: dict[str, int] = field(default_factory=dict)
    clean: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SCHEMA))
    warnings: tuple[str, ...] = ()

    @property
    def table(self) -> pl.DataFrame:
        """Accuracy with interval of every check."""
        return accuracies(self.rows)

    @property
    def worst_case(self) -> pl.DataFrame:
        """Accuracy with interval of every threat (norm and eps), over clean images and all attacks with its budget."""
        return worst_case(self._with_clean)

    @property
    def _with_clean(self) -> pl.DataFrame:
        return pl.concat([self.clean, self.rows.filter(pl.col("check") != CLEAN)])

    @property
    def certified(self) -> pl.DataFrame:
        """Average certified radius with interval of every certificate."""
        return average_certified_radius(self.rows)

    @property
    def at_chance(self) -> bool | None:
        """Whether the model answers clean images no better than by guessing; None where that cannot be decided."""
        return {"fail": True, "pass": False}.get(better_than_chance(self._clean_rows).level)

    @property
    def _clean_rows(self) -> pl.DataFrame:
        return self.rows if self.clean.is_empty() else self.clean

    @property
    def yields(self) -> pl.DataFrame:
        """What each component of composed attacks did."""
        return yields(self.rows)

    def __str__(self) -> str:
        columns = ["check", "accuracy", "low", "high", "examples", "unsettled"]
        tables = (accuracies(self._with_clean), self.worst_case)
        rows = pl.concat([each.select(columns) for each in tables]).to_dicts()
        left = [f"not run for lack of time: {what} on {count} examples" for what, count in self.not_run.items()]
        radii = [
            f"{check}: average certified radius {average:z.4g} in {norm}, {abstained} abstained"
            for check, norm, average, abstained in self.certified.select(
                "check", "norm", "average", "abstained"
            ).iter_rows()
        ]
        bound = self.table["unsettled"].sum() > 0
        upper = ["accuracies of unfinished attacks are upper bounds"] if bound else []
        partly = self.table.filter(pl.col("not_attacked") > 0).select("check", "not_attacked", "examples", "reason")
        left += [f"not attacked: {check} on {n} of {m} examples ({why})" for check, n, m, why in partly.iter_rows()]
        warnings = [*chance_warnings(self._clean_rows), *self.warnings]
        return "\n".join([_table(rows), *radii, *left, *upper, *(f"warning: {line}" for line in warnings)])


def _table(rows: list[dict[str, Any]]) -> str:
    """All rows, with names of any length."""
    cells = [("check", "accuracy", "95 % interval", "images"), *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:]))) for row in cells]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    most = "at most " if row["unsettled"] else ""
    interval = f"[{100 * row['low']:z.1f}, {100 * row['high']:z.1f}]"
    return row["check"], f"{most}{100 * row['accuracy']:z.1f} %", interval, str(row["examples"])
