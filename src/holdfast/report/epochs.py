"""How accuracy changes during training, for runs that kept weights during training."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from holdfast.questions.question import Needs
from holdfast.report.runs import RunData
from holdfast.report.variants import Variant, variants
from holdfast.results.labels import epoch_of
from holdfast.results.ledger import natural
from holdfast.results.summaries import accuracies
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Details, Item
from holdfast.show.numbers import percent
from holdfast.show.table import Cell, Table

GUIDE = (
    "Accuracy of the weights kept during training, on the test images; over several seeds the mean, with the lowest "
    "and the highest. Choosing an epoch by these numbers would be choosing by test images."
)

ByEpoch = Mapping[int, float]
"""The accuracy after each epoch."""


@dataclass(frozen=True, kw_only=True)
class Epochs:
    """Accuracy of the weights kept during training, see `train.keep_every`."""

    title: ClassVar = "Accuracy during training"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """A chart for each check with a curve for each run or variant, and the numbers."""
        some = [one for one in variants(runs) if all(len(run.epoch_rows) for run in one.runs)]
        courses = {one.label: [by_epoch(run) for run in one.runs] for one in some}
        checks = sorted({check for each in courses.values() for course in each for check in course}, key=natural)
        if not checks:
            return
        yield GUIDE
        for check in checks:
            shown = [curve for one in some if (curve := _curve(one, courses[one.label], check)) is not None]
            yield Chart(check, "epoch", tuple(shown), share=True, alone=True)
        yield Details("The accuracies as a table", [_table(some, courses, checks)], open=True)


def by_epoch(run: RunData) -> dict[str, ByEpoch]:
    """The accuracy after each epoch in each check that was tried on the weights of several."""
    last = final_weights(run)
    ends = run.rows.filter(pl.col("weights") == last[0]) if last is not None else run.rows.clear()
    courses: dict[str, dict[int, float]] = {}
    for row in accuracies(pl.concat([run.epoch_rows, ends])).iter_rows(named=True):
        epoch = epoch_of(row["weights"]) or (last[1] if last is not None else None)
        if epoch is not None and not row["unsettled"]:
            courses.setdefault(row["check"], {})[epoch] = row["correct"] / row["examples"]
    return {check: dict(sorted(course.items())) for check, course in courses.items() if len(course) > 1}


def final_weights(run: RunData) -> tuple[str, int] | None:
    """The label of the weights of the last epoch, and which epoch that was."""
    recorded = {label: facts.get("epoch") for label, facts in run.section("weights").items() if isinstance(facts, dict)}
    stated = [(label, epoch) for label in run.weights if isinstance(epoch := recorded.get(label), int)]
    return max(stated, key=lambda each: each[1], default=None)


def _curve(variant: Variant, courses: Sequence[Mapping[str, ByEpoch]], check: str) -> Curve | None:
    """The mean over the seeds that have an epoch, with the lowest and the highest."""
    each = [course[check] for course in courses if check in course]
    epochs = sorted({epoch for course in each for epoch in course})
    if not epochs:
        return None
    values = [[course[epoch] for course in each if epoch in course] for epoch in epochs]
    mean = tuple(math.fsum(some) / len(some) for some in values)
    ends = (tuple(map(min, values)), tuple(map(max, values))) if len(each) > 1 else ((), ())
    return Curve(0, variant.label, tuple(map(float, epochs)), mean, *ends, ribbon=True)


def _table(
    some: Sequence[Variant], courses: Mapping[str, Sequence[Mapping[str, ByEpoch]]], checks: Sequence[str]
) -> Table:
    each = [course for of_variant in courses.values() for course in of_variant]
    epochs = sorted({epoch for course in each for values in course.values() for epoch in values})
    rows = []
    for one in some:
        for check in checks:
            values = [
                [course[check][epoch] for course in courses[one.label] if epoch in course.get(check, {})]
                for epoch in epochs
            ]
            if any(values):
                rows.append((f"{one.label}: {check}", [_mean(seeds) for seeds in values]))
    return Table("Accuracy after each epoch", "Run and check", [f"Epoch {epoch}" for epoch in epochs], rows)


def _mean(values: Sequence[float]) -> Cell:
    if not values:
        return Cell("")
    mean = statistics.fmean(values)
    return Cell(percent(mean), value=mean)
