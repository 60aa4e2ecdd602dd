"""Attacks made of attacks: what each component did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.questions.question import Needs
from holdfast.report.runs import RunData
from holdfast.report.shares import share_of
from holdfast.results.summaries import accuracies, yields
from holdfast.show.items import Details, Item, Note
from holdfast.show.numbers import count, decimal, several
from holdfast.show.table import Cell, Table

COLUMNS = ("Tried", "Broken", "First to break", "Waiting", "Queries", "Seconds", "Broken per second")
FEW = 3
"""Tables that are open on the page."""

GUIDE = Note(
    "An attack made of attacks runs them one after the other, each on the examples that survived so far, so that an "
    "example counts for the first that breaks it. A component with few broken may be weak, or have had little left to "
    "break."
)


@dataclass(frozen=True, kw_only=True)
class Components:
    """What each component of composed attacks, such as AutoAttack, did."""

    title: ClassVar = "Components"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """A table for each composed attack."""
        tables = yield_tables(runs)
        if not tables:
            yield Note("No attack made of several, such as AutoAttack, was run.", "missing")
            return
        yield GUIDE
        if len(tables) <= FEW:
            yield from tables
        else:
            yield from (Details(table.caption, [table], open=number == 0) for number, table in enumerate(tables))


def yield_tables(runs: Sequence[RunData]) -> tuple[Table, ...]:
    """One table for each composed attack of each run and weights, components in the order of running."""
    return tuple(table for run in runs for weights in run.weights for table in _tables(run, weights))


def _tables(run: RunData, weights: str) -> list[Table]:
    rows = run.rows.filter(run.rows["weights"] == weights)
    waiting = {row["check"]: share_of(row).waiting for row in accuracies(rows).iter_rows(named=True)}
    steps: dict[str, list[dict[str, Any]]] = {}
    for step in yields(rows).iter_rows(named=True):
        steps.setdefault(step["check"], []).append(step)
    return [
        Table(
            f"{run.label}, {weights} weights: {check}"
            + (f", unfinished: {several(waiting[check], 'example')} waiting." if waiting[check] else "."),
            "Component",
            COLUMNS,
            [(step["step"], _cells(step)) for step in entries],
        )
        for check, entries in steps.items()
    ]


def _cells(step: dict[str, Any]) -> list[Cell]:
    counts = [Cell(count(step[key]), value=step[key]) for key in ("tried", "broke", "credited", "waiting")]
    if not step["tried"]:
        return [*counts, *[Cell("not run")] * 3]
    rate = "too quick to say" if step["rate"] is None else decimal(step["rate"], 2)
    return [*counts, Cell(count(step["queries"])), Cell(decimal(step["seconds"])), Cell(rate)]
