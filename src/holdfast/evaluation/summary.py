"""Results of checks, with the summaries one asks for first."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from holdfast.analysis.certified import average_certified_radius
from holdfast.analysis.worst_case import worst_case
from holdfast.results import accuracies, yields


@dataclass(frozen=True)
class Results:
    """Rows of a ledger with the summaries one asks for first.

    Args:
        rows: one per example and check.
        not_run: examples left out for lack of time, by check and component.
    """

    rows: pl.DataFrame
    not_run: dict[str, int] = field(default_factory=dict)

    @property
    def table(self) -> pl.DataFrame:
        """Accuracy with interval of every check."""
        return accuracies(self.rows)

    @property
    def worst_case(self) -> pl.DataFrame:
        """Accuracy with interval of every threat (norm and eps), over all attacks with at most its budget."""
        return worst_case(self.rows)

    @property
    def certified(self) -> pl.DataFrame:
        """Average certified radius with interval of every certificate."""
        return average_certified_radius(self.rows)

    @property
    def yields(self) -> pl.DataFrame:
        """What each component of composed attacks did."""
        return yields(self.rows)

    def __str__(self) -> str:
        columns = ["check", "examples", "accuracy", "low", "high"]
        shown = str(pl.concat([self.table.select(columns), self.worst_case.select(columns)]))
        left = [f"not run for lack of time: {what} on {count} examples" for what, count in self.not_run.items()]
        radii = [
            f"{check}: average certified radius {average:.4g} in {norm}, {abstained} abstained"
            for check, norm, average, abstained in self.certified.select(
                "check", "norm", "average", "abstained"
            ).iter_rows()
        ]
        bound = self.table["unsettled"].sum() > 0
        upper = ["accuracies of unfinished attacks are upper bounds"] if bound else []
        return "\n".join([shown, *radii, *left, *upper])
