"""The boundary and the loss around a network: thickness and flatness, as analyses found them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from holdfast.analysis.spread import by_class, give_or_take, spread
from holdfast.analysis.store import Answer
from holdfast.report.curves import Chart, Curve
from holdfast.report.figures import Figure, figures
from holdfast.report.numbers import count, decimal, percent, short
from holdfast.report.runs import RunData, answers_to
from holdfast.report.tables import Cell, Table

BY_FILTER = {True: "distance, as a share of each filter", False: "distance in all parameters together"}


@dataclass(frozen=True)
class Geometry:
    """The section on boundary and flatness.

    Args:
        thickness: of each network, None where nobody asked.
        by_class: the same by class.
        figures: charts of the loss around the parameters.
        flatness_tables: the charts in numbers.
    """

    thickness: Table | None
    by_class: Table | None
    figures: Sequence[Figure]
    flatness_tables: Sequence[Table]

    name: ClassVar[str] = "geometry"
    title: ClassVar[str] = "Boundary and flatness"

    @classmethod
    def of(cls, runs: Sequence[RunData], labels: Sequence[str]) -> Geometry:
        """What analyses found of these runs."""
        drawn = figures(flatness_charts(runs), labels, "flatness")
        return cls(thickness_table(runs), class_thickness_table(runs), drawn, flatness_tables(runs))

    @property
    def there(self) -> bool:
        """Whether there is anything to show."""
        return self.thickness is not None or bool(self.figures)


def thickness_table(runs: Sequence[RunData]) -> Table | None:
    """Mean thickness and spread of each answer; None where nobody asked."""
    rows = []
    for _, run, answer in answers_to(runs, "thickness"):
        result, settings = answer.result, answer.settings
        found, reached = spread(result["value"]), sum(result["reached"]) / len(result["reached"])
        band = f"({short(settings['alpha'])}, {short(settings['beta'])})"
        cells = [
            Cell(_four(found.mean), give_or_take(found.half, _four)),
            Cell("" if found.deviation is None else _four(found.deviation)),
            Cell(percent(reached)), Cell(count(len(result["value"]))), Cell(band), Cell(short(settings["eps"])),
        ]  # fmt: skip
        rows.append((_who(run, answer), cells))
    columns = ("Mean, 95 %", "Deviation", "Segments that arrive", "Images", "Band", "Longest segment (ℓ2)")
    return Table("Boundary thickness", "Run", columns, rows) if rows else None


def _four(value: float) -> str:
    return decimal(value, 4)


def class_thickness_table(runs: Sequence[RunData]) -> Table | None:
    """Mean thickness by predicted class; None where nobody asked."""
    found = [(run, answer, by_class(answer.result)) for _, run, answer in answers_to(runs, "thickness")]
    classes = sorted({name for _, _, groups in found for name in groups})
    means = [spread(values).mean for _, _, groups in found for values in groups.values()]
    if not found:
        return None
    low, high = min(means), max(means)

    def cell(values: Sequence[float] | None) -> Cell:
        if values is None:
            return Cell("")
        mean = spread(values).mean
        return Cell(decimal(mean, 3), heat=(mean - low) / (high - low) if high > low else 0.0, good=True)

    rows = [(_who(run, answer), [cell(groups.get(name)) for name in classes]) for run, answer, groups in found]
    columns = [found[0][0].class_name(name) for name in classes]
    return Table("Mean boundary thickness by predicted class", "Run", columns, rows)


def flatness_charts(runs: Sequence[RunData]) -> tuple[Chart, ...]:
    """Mean loss against the distance from the parameters, a chart for each way of measuring it."""
    curves: dict[bool, list[Curve]] = {}
    for place, _, answer in answers_to(runs, "flatness"):
        levels = answer.result["levels"]
        found = [spread(level["losses"]) for level in levels]
        x, y = (tuple(values) for values in ([level["radius"] for level in levels], [one.mean for one in found]))
        low, high = (tuple(one.mean + sign * (one.half or 0.0) for one in found) for sign in (-1, 1))
        kind = f"{answer.weights} weights"
        curves.setdefault(answer.settings["by_filter"], []).append(Curve(place, kind, x, y, low, high))
    return tuple(
        Chart("Loss around the parameters", BY_FILTER[way], tuple(some), False) for way, some in sorted(curves.items())
    )


def flatness_tables(runs: Sequence[RunData]) -> list[Table]:
    """The charts in numbers: a row for each distance, a column for each network."""
    columns: dict[bool, dict[str, dict[float, Cell]]] = {}
    for _, run, answer in answers_to(runs, "flatness"):
        settings = answer.settings
        cells = columns.setdefault(settings["by_filter"], {}).setdefault(_who(run, answer), {})
        for level in answer.result["levels"]:
            losses, errors = spread(level["losses"]), spread(level["errors"])
            note = f"{give_or_take(losses.half, _four)}; {percent(1 - errors.mean)} right"
            cells[level["radius"]] = Cell(decimal(losses.mean, 4), note)
    return [
        Table(
            "Mean loss with its 95 % interval, and accuracy, at each distance from the parameters",
            BY_FILTER[way].capitalize(),
            list(found),
            [
                (short(radius), [cells.get(radius, Cell("")) for cells in found.values()])
                for radius in sorted({radius for cells in found.values() for radius in cells})
            ],
        )
        for way, found in sorted(columns.items())
    ]


def _who(run: RunData, answer: Answer) -> str:
    return f"{run.label} ({answer.weights})"
