"""The record of training: curves, epochs, what a step cost, and what was alarming."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from holdfast.questions.question import Needs
from holdfast.report.runs import RunData
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Details, Item, Note
from holdfast.show.numbers import count, decimal, several
from holdfast.show.table import Cell, Table
from holdfast.traits import finite

COST = Note(
    "Passes are those that the objective states. Expected takes a backward pass for twice a forward pass; one that "
    "only wants the gradient of the images is cheaper, and one through a gradient dearer. Measured is the median over "
    "the epochs; the standard step was timed when training began. Times are those of the processor on a CPU."
)


@dataclass(frozen=True, kw_only=True)
class Training:
    """The record of training: curves, epochs and costs."""

    title: ClassVar = "Training"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """Alarms, costs, curves and epochs."""
        yield from (Note(sentence, "doubt") for run in runs if (sentence := alarm(run)))
        if (costs := training_cost(runs)) is not None:
            yield from (costs, COST)
        yield from training_charts(runs)
        yield from (Details(table.caption, [table]) for table in (epochs(run) for run in runs if run.epochs))
        if untrained := [run.label for run in runs if not run.epochs]:
            yield Note(f"There is no training record of {', '.join(untrained)}.", "missing")


def training_charts(runs: Sequence[RunData]) -> tuple[Chart, ...]:
    """Loss, accuracy and learning rate by epoch; only those with data."""
    losses = {"training": _at("train", "total"), "validation": _at("validation", "loss")}
    accuracies = {
        "training": _at("train", "accuracy"),
        "validation": _at("validation", "accuracy"),
        "validation, attacked": _at("validation", "robust_accuracy"),
        "held-out network's errors": _at("validation", "transfer_rate"),
    }
    charts = (
        Chart("Loss", "epoch", _traces(runs, losses), False),
        Chart("Accuracy", "epoch", _traces(runs, accuracies), True),
        Chart("Learning rate", "epoch", _traces(runs, {"learning rate": lambda epoch: epoch.get("lr")}), False),
    )
    return tuple(chart for chart in charts if chart.curves)


def epochs(run: RunData) -> Table:
    """The training record of one run, epoch by epoch: the text alternative of its curves."""
    parts = {part: _keys(run, part) for part in ("train", "validation")}
    columns = ("Learning rate", *(f"{part} {key}".replace("_", " ") for part, keys in parts.items() for key in keys))
    rows = []
    for epoch in run.epochs:
        values = [(epoch.get(part) or {}).get(key) for part, keys in parts.items() for key in keys]
        cells = [_measured(value) for value in (epoch.get("lr"), *values, epoch.get("seconds"))]
        rows.append((str(epoch.get("epoch", "")), cells))
    return Table(f"Training of {run.label}, epoch by epoch.", "Epoch", (*columns, "Seconds"), rows, style="tall")


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


def _measured(value: object) -> Cell:
    return Cell(f"{value:z.4g}", value=value) if isinstance(value, int | float) else Cell("not measured")


def _at(part: str, key: str) -> Callable[[Mapping[str, Any]], object]:
    return lambda epoch: (epoch.get(part) or {}).get(key)


def _traces(
    runs: Sequence[RunData], quantities: Mapping[str, Callable[[Mapping[str, Any]], object]]
) -> tuple[Curve, ...]:
    curves = []
    for place, run in enumerate(runs):
        for kind, read in quantities.items():
            spots = [(finite(epoch.get("epoch")), finite(read(epoch))) for epoch in run.epochs]
            points = [(x, y) for x, y in spots if x is not None and y is not None]
            if points:
                curves.append(Curve(place, kind, tuple(x for x, _ in points), tuple(y for _, y in points)))
    return tuple(curves)
