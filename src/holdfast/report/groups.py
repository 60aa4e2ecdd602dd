"""What mistakes are worth where the classes have a hierarchy: groups, severity, and what is taken for what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import polars as pl

from holdfast.hierarchy import Hierarchy, Level
from holdfast.questions.question import Needs
from holdfast.report.certificates import bracket_chart, brackets_of
from holdfast.report.curves import budget_charts
from holdfast.report.group_attacks import attack_tables
from holdfast.report.proofs import certificate_table, proofs_of
from holdfast.report.runs import RunData
from holdfast.report.shares import Share, share_of
from holdfast.report.unfinished import absent
from holdfast.results.groups import across, right_group_given_wrong_class, severities, worst_severities
from holdfast.results.summaries import accuracies, confusion
from holdfast.results.worst_case import threats, title, worst_case
from holdfast.show.chart import Chart
from holdfast.show.items import Choice, Details, Heading, Item, Note
from holdfast.show.numbers import count, give_or_take, percent, short
from holdfast.show.table import Cell, Table

NONE = Cell("—")
STOPS = Cell("—", "stops once it succeeds")
COSTS = 12
"""Columns of the table of costs, at most; where mistakes have more different costs, only their mean is shown."""
LIMIT = 40
"""Groups in a matrix, at most."""

GUIDE = Note(
    "A group is right if the predicted class is in the group of the label. The share of right groups among the wrong "
    "classes stands beside its chance level: what it would be if the same examples had wrong classes drawn evenly. It "
    "is left out for attacks that stop at the first wrong class, which is the nearest one and so too often in the "
    "group of the label. Severity is what a mistake costs, 0 for a right answer; its mean over all examples has a 95 % "
    "interval. The worst case counts, for each example, the worst that any check of the threat has reached. An attack "
    "on classes does not look for other groups, so that it bounds the accuracy of groups loosely; `hierarchical`, "
    "`hierarchical_halving` and `hierarchical_pgd` look for them."
)


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Accuracy of groups, wrong classes of the right group and severity of mistakes, for classes with a hierarchy."""

    title: ClassVar = "Groups of classes"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """A table for each run, the costs of mistakes, leaf and group curves, and matrices of groups."""
        grouped = [(run, run.hierarchy) for run in runs if run.hierarchy is not None]
        if not grouped:
            return
        yield GUIDE
        for run, hierarchy in grouped:
            yield group_table(run, hierarchy)
        for run, hierarchy in grouped:
            if (table := cost_table(run, hierarchy)) is not None:
                yield Details(table.caption, [table])
            for border in (hierarchy.border(level.name) for level in hierarchy.levels):
                if tables := attack_tables(run, border):
                    yield Details(f"Attacks on {run.label}, {border.name}: examples and gradients", tables)
        yield from group_charts(runs)
        for run, hierarchy in grouped:
            yield from _certified(run, hierarchy)
        if matrices := [option for run, hierarchy in grouped for option in _matrices(run, hierarchy)]:
            yield Note("Which group is taken for which, on clean images and in the strongest check of each run.")
            yield Choice(matrices)


def group_table(run: RunData, hierarchy: Hierarchy) -> Table:
    """A row for each check and for the worst case of each threat, about the main weights of a run."""
    parts = [_Column.of_level(run, hierarchy, level) for level in hierarchy.levels]
    columns = [_Column.of_classes(run), *parts, *(_Column.of_mistakes(run, hierarchy, one) for one in hierarchy.levels)]
    columns.append(_Column.of_severity(run, hierarchy))
    worst = [title(threat) for threat in threats(run.attempts)]
    names = [*(check.name for check in run.main_checks if not check.certificate), *worst]
    rows = [(name, [column.cells.get(name, NONE) for column in columns]) for name in names]
    rows = [(name, cells) for name, cells in rows if any(cell != NONE for cell in cells)]
    caption = f"{run.label}, {run.weights[0]} weights: classes, groups and severity of mistakes."
    totals = sum(name in worst for name, _ in rows)
    return Table(caption, "Check", [column.heading for column in columns], rows, totals=totals, style="headline")


@dataclass(frozen=True)
class _Column:
    """A column of the table of groups: its cells by the name of the check."""

    heading: str
    cells: dict[str, Cell]

    @classmethod
    def of_classes(cls, run: RunData) -> _Column:
        """Accuracy of the classes."""
        return cls("Class right", _accuracy_cells(run, run.main_rows))

    @classmethod
    def of_level(cls, run: RunData, hierarchy: Hierarchy, level: Level) -> _Column:
        """Accuracy of the groups of a level."""
        return cls(f"{_named(level)} right", _accuracy_cells(run, across(run.main_rows, hierarchy.border(level.name))))

    @classmethod
    def of_mistakes(cls, run: RunData, hierarchy: Hierarchy, level: Level) -> _Column:
        """Right groups among wrong classes."""
        records = right_group_given_wrong_class(run.main_rows, hierarchy.border(level.name)).iter_rows(named=True)
        return cls(f"{_named(level)} right given a wrong class", {row["check"]: _mistaken(row) for row in records})

    @classmethod
    def of_severity(cls, run: RunData, hierarchy: Hierarchy) -> _Column:
        """Expected severity."""
        cells = {row["check"]: _severity(row) for row in severities(run.main_rows, hierarchy).iter_rows(named=True)}
        for threat in threats(run.main_rows):
            for row in worst_severities(run.main_rows, hierarchy, threat).iter_rows(named=True):
                cells[title(threat)] = _severity(row)
        return cls("Expected severity", cells)


def _accuracy_cells(run: RunData, rows: pl.DataFrame) -> dict[str, Cell]:
    """Accuracy with its interval of every check, and of the worst case of every threat."""
    cells = {row["check"]: share_of(row).cell() for row in accuracies(rows).iter_rows(named=True)}
    for threat in threats(rows):
        for row in worst_case(rows, [threat]).iter_rows(named=True):
            cells[title(threat)] = share_of(row, absent=absent(run, run.weights[0], threat)).cell()
    return cells


def _mistaken(row: dict[str, Any]) -> Cell:
    """A share beside its chance level; none where it would be biased."""
    if row["stops_early"]:
        return STOPS
    if row["share"] is None:
        return Cell("—", "no wrong class")
    share = Share(row["share"], row["low"], row["high"])
    return share.cell(f"chance {percent(row['chance'])}, {count(row['inside'])} of {count(row['wrong'])}")


def _severity(row: dict[str, Any]) -> Cell:
    return Cell(short(row["severity"]), give_or_take(row["half"], short), value=row["severity"])


def cost_table(run: RunData, hierarchy: Hierarchy) -> Table | None:
    """How often mistakes of each cost were made in each check; None where they have too many different costs."""
    costs = sorted({0.0, *hierarchy.costs.flatten().tolist()})
    if len(costs) > COSTS:
        return None
    rows = []
    for row in severities(run.main_rows, hierarchy).iter_rows(named=True):
        counts = {entry["cost"]: entry["examples"] for entry in row["costs"]}
        shares = [counts.get(cost, 0) / row["examples"] for cost in costs]
        both = zip(costs, shares, strict=True)
        cells = [Cell(percent(share), heat=share, good=cost == 0, value=share) for cost, share in both]
        rows.append((row["check"], cells))
    caption = f"{run.label}, {run.weights[0]} weights: examples by the severity of their mistake; 0 is a right answer."
    return Table(caption, "Check", [short(cost) for cost in costs], rows, style="dense")


def group_charts(runs: Sequence[RunData]) -> Iterator[Chart]:
    """Accuracy of classes and of groups of the finest level against noise and eps, on one plot for each axis."""
    places = [place for place, run in enumerate(runs) if run.hierarchy is not None and run.hierarchy.levels]
    chosen = [runs[place] for place in places]
    of_groups = budget_charts([_as_groups(run) for run in chosen])
    for chart, viewed in zip(budget_charts(chosen), of_groups, strict=True):
        curves = (*chart.curves, *(replace(curve, kind=f"{curve.kind}, groups") for curve in viewed.curves))
        placed = tuple(replace(curve, run=places[curve.run]) for curve in curves)
        yield replace(chart, title=f"{chart.title}: classes and groups", curves=placed)


def _certified(run: RunData, hierarchy: Hierarchy) -> Iterator[Item]:
    """What is proved of the groups of each level, beside what attacks leave of them."""
    for level in hierarchy.levels:
        viewed = [replace(run, rows=across(run.main_rows, hierarchy.border(level.name)))]
        if proofs := proofs_of(viewed):
            yield Heading(f"Certificates of {run.label}: {level.name}")
            yield certificate_table(viewed, proofs)
            yield from map(bracket_chart, brackets_of(viewed, proofs))


def _as_groups(run: RunData) -> RunData:
    """The run as seen from the border of its finest level."""
    assert run.hierarchy is not None
    return replace(run, rows=across(run.main_rows, run.hierarchy.border()))


def _matrices(run: RunData, hierarchy: Hierarchy) -> Iterator[tuple[str, list[Item]]]:
    """The confusion of groups at each level, clean and in the check with the lowest accuracy of groups."""
    for level in hierarchy.levels:
        rows = across(run.main_rows, hierarchy.border(level.name))
        accuracy = {row["check"]: row["accuracy"] for row in accuracies(rows).iter_rows(named=True)}
        clean = [check.name for check in run.main_checks if check.clean]
        changing = [check.name for check in run.main_checks if not check.clean and not check.certificate]
        for name in dict.fromkeys([*clean[:1], *sorted(changing, key=lambda check: accuracy[check])[:1]]):
            heading = f"{run.label}, {run.weights[0]} weights: {name}, {level.name}"
            yield heading, [_matrix(heading, level, rows.filter(pl.col("check") == name))]


def _matrix(heading: str, level: Level, rows: pl.DataFrame) -> Item:
    if len(level.groups) > LIMIT:
        return Note("There are too many groups to show the whole matrix.", "missing")
    totals = dict(rows.group_by("label").len().iter_rows())
    lines = []
    for label, line in enumerate(confusion(rows, len(level.groups))):
        total = max(totals.get(label, 0), 1)
        cells = [Cell(count(number), heat=number / total, good=label == place) for place, number in enumerate(line)]
        lines.append((level.groups[label], cells))
    caption = f"{heading}. Rows are the true group, columns the predicted one; counts of examples."
    return Table(caption, "True group", level.groups, lines, style="dense")


def _named(level: Level) -> str:
    return level.name[:1].upper() + level.name[1:]
