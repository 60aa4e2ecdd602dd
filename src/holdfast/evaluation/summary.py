"""Results of checks, with the summaries one asks for first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from holdfast.hierarchy import Hierarchy
from holdfast.results.certified_radii import average_certified_radius
from holdfast.results.ledger import SCHEMA
from holdfast.results.summaries import accuracies, yields
from holdfast.results.worst_case import worst_case
from holdfast.show.items import Item, Note
from holdfast.show.terminal import to_text
from holdfast.trust.chance import better_than_chance, chance_warnings

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
        hierarchy: of the classes; None for none.
    """

    rows: pl.DataFrame
    not_run: dict[str, int] = field(default_factory=dict)
    clean: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SCHEMA))
    warnings: tuple[str, ...] = ()
    hierarchy: Hierarchy | None = None

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
    def _data(self) -> dict[str, Any]:
        """What a report has to know of the classes."""
        if self.hierarchy is None:
            return {}
        return {"classes": list(self.hierarchy.classes), "hierarchy": self.hierarchy.facts()}

    @property
    def yields(self) -> pl.DataFrame:
        """What each component of composed attacks did."""
        return yields(self.rows)

    def items(self) -> Iterator[Item]:
        """Accuracies, certificates, what was not run and what makes the numbers doubtful, as a report shows them."""
        from holdfast.report.accuracy import every_network
        from holdfast.report.groups import Groups
        from holdfast.report.proofs import certificate_table, proofs_of
        from holdfast.report.runs import RunData
        from holdfast.report.unfinished import Unfinished

        rows = self._with_clean
        if rows.is_empty():
            return
        name, weights = rows.select("run", "weights").row(0)
        facts = {"name": name, "not_run": {weights: self.not_run}, "data": self._data}
        runs = [RunData(label=name, facts=facts, rows=rows, recipe=None, epochs=(), galleries=())]
        yield every_network(runs)
        yield from Groups().present(runs)
        if proofs := proofs_of(runs):
            yield certificate_table(runs, proofs)
        yield from Unfinished().present(runs)
        for line in (*chance_warnings(self._clean_rows), *self.warnings):
            yield Note(line, "doubt", "Warning:")

    def __str__(self) -> str:
        return to_text(self.items())

    def _repr_html_(self) -> str:
        from holdfast.show.page import to_html

        return to_html(self.items())
