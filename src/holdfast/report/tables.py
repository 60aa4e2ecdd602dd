"""The tables of the page: cells first, HTML later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import polars as pl

from holdfast.report.runs import RunData
from holdfast.report.shares import Share, share_of
from holdfast.report.unfinished import Gap, unseen
from holdfast.report.worst_cases import WorstCase, all_threats, worst_cases
from holdfast.results import accuracies
from holdfast.results.recorded_checks import Check, checks_of
from holdfast.results.worst_case import title
from holdfast.show.numbers import count, counts, decimal, several
from holdfast.show.table import Cell, Table
from holdfast.traits import finite

NOT_RUN = "not run"


def share_cell(share: Share, note: str = "") -> Cell:
    """Accuracy with its interval."""
    return Cell(share.text, ", ".join(filter(None, (share.note, note))), span=(share.value, share.low, share.high))


def all_rows(runs: Sequence[RunData]) -> pl.DataFrame:
    """The rows of all runs; their column `run` is the label."""
    return pl.concat([run.rows for run in runs])


def all_checks(runs: Sequence[RunData]) -> tuple[Check, ...]:
    """The checks of all runs, in order."""
    return checks_of(all_rows(runs))


def headline(runs: Sequence[RunData]) -> Table:
    """Accuracy with interval of every check, run and weights, and the worst case of every threat."""
    results = _by_place(accuracies(all_rows(runs)))
    places = _places(runs)
    missing = {(run.label, weights): unseen(run, weights) for run in runs for weights in run.weights}
    rows = []
    for check in all_checks(runs):
        here = [results.get((*place, check.name)) for place in places]
        cells = [
            Cell(NOT_RUN) if row is None else share_cell(share_of(row), _remark(row, missing[place].get(check.name, 0)))
            for place, row in zip(places, here, strict=True)
        ]
        rows.append((check.name, [Cell(counts([row["examples"] for row in here if row])), *cells]))
    worst = worst_rows(runs)
    return Table(
        "Accuracy in each check, in percent of the examples, with its 95 % Wilson interval.",
        "Check",
        ("Examples", *(f"{weights} weights" for _, weights in places)),
        [*rows, *worst],
        groups=(("", 1), *((run.label, len(run.weights)) for run in runs)),
        totals=len(worst),
    )


def _remark(row: Mapping[str, Any], missing: int) -> str:
    abstained = f"{several(row['abstained'], 'example')} without an answer" if row["abstained"] else ""
    return ", ".join(filter(None, (abstained, part(row["examples"], missing))))


def part(seen: int, missing: int) -> str:
    """That a check has seen only a part of the examples; empty if it has seen all."""
    return f"{count(seen)} of {count(seen + missing)} examples" if missing else ""


def unfinished_table(gaps: Sequence[Gap]) -> Table:
    """One line for each piece of work that is missing."""
    rows = [
        (gap.what, [Cell(gap.run, words=True), Cell(gap.weights, words=True), Cell(count(gap.examples))])
        for gap in gaps
    ]
    return Table("Not run, and on how many examples.", "Check", ("Run", "Weights", "Examples"), rows)


def cost(runs: Sequence[RunData]) -> Table:
    """Mean queries per example and total seconds of every check, run and weights."""
    results = _by_place(accuracies(all_rows(runs)))
    places = _places(runs)
    rows = []
    for check in all_checks(runs):
        cells: list[Cell] = []
        for place in places:
            row = results.get((*place, check.name))
            cells += (
                [Cell(NOT_RUN)] * 2 if row is None else [Cell(decimal(row["queries"])), Cell(decimal(row["seconds"]))]
            )
        rows.append((check.name, cells))
    return Table(
        "What the checks cost: mean forward passes per example (queries) and seconds in total.",
        "Check",
        ("Queries", "Seconds") * len(places),
        rows,
        groups=tuple((f"{label}, {weights}", 2) for label, weights in places),
    )


def epochs(run: RunData) -> Table:
    """The training record of one run, epoch by epoch: the text alternative of its curves."""
    parts = {part: _keys(run, part) for part in ("train", "validation")}
    columns = ("Learning rate", *(f"{part} {key}".replace("_", " ") for part, keys in parts.items() for key in keys))
    rows = []
    for epoch in run.epochs:
        values = [(epoch.get(part) or {}).get(key) for part, keys in parts.items() for key in keys]
        cells = [Cell(_measured(value)) for value in (epoch.get("lr"), *values, epoch.get("seconds"))]
        rows.append((str(epoch.get("epoch", "")), cells))
    return Table(f"Training of {run.label}, epoch by epoch.", "Epoch", (*columns, "Seconds"), rows)


def training_cost(runs: Sequence[RunData]) -> Table | None:
    """Passes and cost of a training step, as stated and as measured; None where nobody measured."""
    rows = [(run.label, cells) for run in runs if (cells := _step_cells(run))]
    if not rows:
        return None
    return Table(
        "What a training step costs, in standard steps of the same network on the same batch.",
        "Run",
        ("Forward passes", "Backward passes", "Expected", "Measured", "Step in ms", "Standard step in ms"),
        rows,
    )


def _step_cells(run: RunData) -> list[Cell]:
    """The median epoch of a run; single epochs may have shared their machine with others."""
    costs = [cost for epoch in run.epochs if isinstance(cost := epoch.get("cost"), dict)]
    times = [(finite(cost.get("step_seconds")), finite(cost.get("standard_seconds"))) for cost in costs]
    pairs = [(mine, base) for mine, base in times if mine is not None and base]
    if not pairs:
        return []
    stated = [finite(costs[-1].get(name)) for name in ("forward", "backward", "expected")]
    ratio, mine, base = (median(column) for column in zip(*((m / b, 1e3 * m, 1e3 * b) for m, b in pairs), strict=True))
    passes = [Cell("not stated" if value is None else count(value)) for value in stated[:2]]
    expected = Cell("not stated" if stated[2] is None else decimal(stated[2], 2))
    return [*passes, expected, Cell(decimal(ratio, 2)), Cell(decimal(mine)), Cell(decimal(base))]


def alarm(run: RunData) -> str:
    """What the objective noticed first, and in how many epochs it noticed something; empty if nothing."""
    raised = [epoch for epoch in run.epochs if epoch.get("alarm")]
    if not raised:
        return ""
    more = f" In all, {several(len(raised), 'epoch')} ended with an alarm." if len(raised) > 1 else ""
    return f"{run.label}, after epoch {raised[0].get('epoch')}: {raised[0]['alarm']}.{more}"


def _keys(run: RunData, part: str) -> list[str]:
    return list(dict.fromkeys(key for epoch in run.epochs for key in (epoch.get(part) or {})))


def _measured(value: object) -> str:
    return f"{value:z.4g}" if isinstance(value, int | float) else "not measured"


def _places(runs: Sequence[RunData]) -> list[tuple[str, str]]:
    return [(run.label, weights) for run in runs for weights in run.weights]


def _by_place(frame: pl.DataFrame) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(row["run"], row["weights"], row["check"]): row for row in frame.iter_rows(named=True)}


def worst_rows(runs: Sequence[RunData]) -> list[tuple[str, list[Cell]]]:
    """A row for every threat, with the worst case of each column."""
    among = all_threats(runs)
    columns = [
        {case.threat: case for case in worst_cases(run, weights, among)} for run in runs for weights in run.weights
    ]
    return [_worst_row([column.get(threat) for column in columns], title(threat)) for threat in among]


def _worst_row(cases: Sequence[WorstCase | None], name: str) -> tuple[str, list[Cell]]:
    """One threat; where columns differ in their checks, each states how many it has."""
    attacked = [case for case in cases if case]
    differ = len({case.checks for case in attacked}) > 1
    return name, [Cell(counts([case.examples for case in attacked])), *(_worst_cell(case, differ) for case in cases)]


def _worst_cell(case: WorstCase | None, differ: bool) -> Cell:
    if case is None:
        return Cell(NOT_RUN)
    if case.share is None:
        return Cell("unknown", "no example was in all checks")
    checks = several(len(case.checks), "check") if differ else ""
    return share_cell(case.share, ", ".join(filter(None, (checks, part(case.examples, case.missing)))))
