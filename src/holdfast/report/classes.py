"""Class by class: accuracy in each check, and which classes are confused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from holdfast.questions.question import Needs
from holdfast.report.accuracy import NOT_RUN
from holdfast.report.runs import RunData
from holdfast.results.recorded_checks import Check
from holdfast.results.summaries import accuracies, confusion, not_attacked, per_class, unsettled, waiting
from holdfast.show.items import Choice, Item, Note
from holdfast.show.numbers import count, several
from holdfast.show.table import Cell, Table

LIMIT = 40  # classes in a table; more are not read by anyone


CONFUSION = Note("Which classes are confused, on clean images and in the strongest check of each run.")
TOO_MANY = Note("There are too many classes to show the whole matrix.", "missing")


@dataclass(frozen=True, kw_only=True)
class ClassAccuracies:
    """Accuracy of every class in each check."""

    title: ClassVar = "Classes"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """A table for each run, with how sure it is."""
        for run in runs:
            frame = per_class(run.main_rows)
            labels = _weakest(frame)
            yield from (class_table(run, frame, labels), Note(_caution(frame, len(labels))))


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Which classes are confused with each other."""

    title: ClassVar = "Confusion"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """Confusion matrices of every run: clean and the strongest check."""
        chosen = []
        for run in runs:
            clean = next((check for check in run.main_checks if check.clean), None)
            chosen += [_option(run, check) for check in (clean, strongest(run)) if check]
        if chosen:
            yield from (CONFUSION, Choice(chosen))


def class_table(run: RunData, frame: pl.DataFrame, labels: Sequence[int]) -> Table:
    """Accuracy of some classes in every check of a run's main weights."""
    results = {(row["check"], row["label"]): row for row in frame.iter_rows(named=True)}
    waiting = set(run.main_rows.filter(unsettled()).select("check", "label").iter_rows())
    rows = []
    for check in run.main_checks:
        here = [(results.get((check.name, label)), (check.name, label) in waiting) for label in labels]
        cells = [Cell(NOT_RUN) if row is None else _accuracy(row["accuracy"], bound) for row, bound in here]
        rows.append((check.name, cells))
    about = "percent correct in each class; the stronger the colour, the larger the drop"
    about += "; ≤ where the check is unfinished" if waiting else ""
    caption = f"{run.label}, {run.weights[0]} weights: {about}."
    return Table(caption, "Check", [run.class_name(label) for label in labels], rows, style="dense")


def strongest(run: RunData) -> Check | None:
    """The check that changes images with the lowest accuracy; None when there is none."""
    accuracy = {row["check"]: row["accuracy"] for row in accuracies(run.main_rows).iter_rows(named=True)}
    changing = (check for check in run.main_checks if not check.clean and not check.certificate)
    return min(changing, key=lambda check: accuracy[check.name], default=None)


def _option(run: RunData, check: Check) -> tuple[str, list[Item]]:
    rows = run.main_rows.filter(pl.col("check") == check.name)
    title = f"{run.label}, {run.weights[0]} weights: {check.name}"
    table = _matrix(run, title, confusion(rows, run.classes), rows) if run.classes <= LIMIT else TOO_MANY
    return title, [_waiting(rows) + _mistakes(run, rows), table]


def _matrix(run: RunData, title: str, matrix: list[list[int]], rows: pl.DataFrame) -> Table:
    totals = dict(rows.group_by("label").len().iter_rows())
    none = [totals.get(label, 0) - sum(line) for label, line in enumerate(matrix)]
    names = [run.class_name(index) for index in range(run.classes)]
    lines = []
    for label, line in enumerate(matrix):
        total = max(totals.get(label, 0), 1)
        cells = [_tally(n, total, good=label == column) for column, n in enumerate(line)]
        lines.append((names[label], [*cells, *([_tally(none[label], total)] if any(none) else [])]))
    caption = f"{title}. Rows are the true class, columns the predicted one; counts of examples."
    return Table(caption, "True class", [*names, *(["no answer"] if any(none) else [])], lines, style="dense")


def _waiting(rows: pl.DataFrame) -> str:
    counts = {"waiting": waiting(), "not attacked": not_attacked()}
    numbers = rows.select(**{state: mask.sum() for state, mask in counts.items()}).row(0, named=True)
    states = " and ".join(f"{several(number, 'example')} {state}" for state, number in numbers.items() if number)
    return f"Unfinished: {states}, counted as right here. " if states else ""


def _mistakes(run: RunData, rows: pl.DataFrame) -> str:
    confused = rows.filter((pl.col("prediction") >= 0) & (pl.col("prediction") != pl.col("label")))
    wrong = [(n, a, b) for a, b, n in confused.group_by("label", "prediction").len().iter_rows()]
    if not wrong:
        return "No class is predicted as another."
    top = sorted(wrong, key=lambda mistake: (-mistake[0], *mistake[1:]))[:5]
    parts = [f"{run.class_name(a)} predicted as {run.class_name(b)} ({count(n)}×)" for n, a, b in top]
    return "Most frequent mistakes: " + ", ".join(parts) + "."


def _weakest(frame: pl.DataFrame) -> list[int]:
    """Labels to show in order: all, or the weakest on average when there are too many."""
    means = frame.group_by("label").agg(pl.col("accuracy").mean()).sort("accuracy", "label")
    return sorted(means["label"].head(LIMIT).to_list())


def _caution(frame: pl.DataFrame, shown: int) -> str:
    widest = frame.select(((pl.col("high") - pl.col("low")) / 2).max()).item()
    present = frame["label"].n_unique()
    left_out = f" Of {count(present)} classes, the {shown} weakest on average are shown." if present > shown else ""
    least = several(frame.select(pl.col("examples").min()).item(), "example")
    return (
        f"The smallest class has {least} in a check; "
        f"the widest 95 % interval reaches {100 * widest:.0f} points to either side.{left_out}"
    )


def _accuracy(share: float, bound: bool) -> Cell:
    return Cell(f"{'≤ ' if bound else ''}{100 * share:.0f}", heat=1 - share)


def _tally(number: int, total: int, *, good: bool = False) -> Cell:
    return Cell(count(number), heat=number / total, good=good)
