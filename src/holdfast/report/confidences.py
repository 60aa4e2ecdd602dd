"""Confidence on clean images, at random points and after one step of PGD: table 3.1 as an analysis measured it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.analysis.confidence_summary import KINDS, AtPoints, summarise_confidences
from holdfast.analysis.spread import Spread, give_or_take
from holdfast.report.curves import NORMS
from holdfast.report.runs import RunData, measured
from holdfast.show.figures import Figure
from holdfast.show.numbers import decimal, interval, percent, short
from holdfast.show.table import Cell, Table

COLUMNS = ("Likeliest class, 95 %", "True class, 95 %", "Right, 95 %")


@dataclass(frozen=True)
class ConfidenceTable:
    """The section on confidence.

    Args:
        table: of all networks, None where nobody asked.
    """

    table: Table | None

    name: ClassVar[str] = "confidences"
    title: ClassVar[str] = "Confidence around the images"

    @classmethod
    def of(cls, runs: Sequence[RunData], labels: Sequence[str]) -> ConfidenceTable:
        """What was measured of these runs."""
        rows = []
        for _, who, one in measured(runs, "confidences"):
            settings = one.question.settings
            found = summarise_confidences(one.rows, radii=settings["radii"])
            rows += [(f"{who}, {_points(at, settings)}", _cells(at)) for at in found]
        caption = "Mean probability of the likeliest and of the true class, and right answers"
        return cls(Table(caption, "Run", COLUMNS, rows) if rows else None)

    @property
    def there(self) -> bool:
        """Whether there is anything to show."""
        return self.table is not None

    @property
    def figures(self) -> Sequence[Figure]:
        """None: fifteen numbers are a table."""
        return ()


def _points(at: AtPoints, settings: Any) -> str:
    norm = NORMS.get(settings["norm"], settings["norm"])
    return f"{KINDS[at.points]}, {norm} {short(float(at.eps))}" if at.eps else KINDS[at.points]


def _cells(at: AtPoints) -> list[Cell]:
    right = Cell(percent(at.accuracy), interval(at.interval.low, at.interval.high))
    return [_mean(at.likeliest), _mean(at.true), right]


def _mean(found: Spread) -> Cell:
    return Cell(percent(found.mean), give_or_take(found.half, lambda half: decimal(100 * half)))
