"""Tables of mixtures of two networks, and of their gradients."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.analysis.magnitude_summary import MagnitudeSummary
from holdfast.analysis.mixing_summary import Rate
from holdfast.report.magnitude_figures import MOST
from holdfast.report.mixing_figures import ATTACKS, Asked, strength
from holdfast.show.numbers import interval, percent, short
from holdfast.show.table import Cell, Table

POINTS = {
    "clean": "clean images", "on_standard": "images attacked through the standard network",
    "on_robust": "images attacked through the robust network",
}  # fmt: skip
"""Where gradients are measured, by their names in the rows."""


def strength_table(one: Asked) -> Table:
    """Accuracy of every mixture under every attack."""
    rows = [(strength(at.mixture), [rate_cell(getattr(at, kind)) for kind in ATTACKS]) for at in one.found.strengths]
    return Table(
        f"Mixtures by strength: {one.title}", "Strength", [name.capitalize() for name in ATTACKS.values()], rows
    )


def aim_table(one: Asked) -> Table:
    """Accuracy under attacks by their aim."""
    rows = [(strength(at.aim), [rate_cell(getattr(at, who)) for who in one.names]) for at in one.found.aims]
    return Table(f"Attacks by aim: {one.title}", "Aim", [name.capitalize() for name in one.names.values()], rows)


def radius_table(one: Asked) -> Table:
    """Worst cases by radius."""
    rows = [(short(float(at.eps)), [rate_cell(getattr(at, who)) for who in one.names]) for at in one.found.radii]
    columns = [name.capitalize() for name in one.names.values()]
    return Table(f"Worst of the same attacks, by radius: {one.title}", "ε", columns, rows)


def gradient_tables(one: Asked, sizes: Mapping[str, MagnitudeSummary]) -> list[Table]:
    """Medians by class, means, and correlations of few classes."""
    who = f"{one.standard} and {one.robust}"
    columns = (
        "Mean size, standard",
        "Mean size, robust",
        "Correlation in standard",
        "In robust",
        "Between",
        "Ratio varies",
    )
    rows = []
    for points, name in POINTS.items():
        one_kind = sizes[points]
        cells = [short(value) for value in one_kind.means]
        cells += [
            correlation_text(value) for value in (one_kind.within_standard, one_kind.within_robust, one_kind.between)
        ]
        cells.append("unknown" if one_kind.ratio is None else percent(one_kind.ratio))
        rows.append((name.capitalize(), [Cell(cell) for cell in cells]))
    tables = [Table(f"Gradient sizes: {who}", "Points", columns, rows)]
    for points, name in POINTS.items():
        tables.append(_medians(one, sizes[points], f"Median gradient sizes by class, {name}: {who}"))
        if len(one.classes) <= MOST:
            tables.append(_correlations(one, sizes[points], f"Correlations of gradient sizes, {name}: {who}"))
    return tables


def _medians(one: Asked, found: MagnitudeSummary, caption: str) -> Table:
    rows = [
        (f"{who} network", [Cell(short(column[len(column) // 2])) for column in getattr(found, who)])
        for who in ("standard", "robust")
    ]
    return Table(caption, "Network", one.classes, rows)


def _correlations(one: Asked, found: MagnitudeSummary, caption: str) -> Table:
    names = [f"{who} {name}" for who in ("g", "h") for name in one.classes]
    rows = [
        (
            name,
            [
                Cell(correlation_text(value), heat=None if value is None else abs(value), good=(value or 0) > 0)
                for value in row
            ],
        )
        for name, row in zip(names, found.correlation, strict=True)
    ]
    return Table(caption, "Class", names, rows)


def rate_cell(rate: Rate) -> Cell:
    """Accuracy with its interval."""
    return Cell(percent(rate.value), interval(rate.low, rate.high))


def correlation_text(value: float | None) -> str:
    """A correlation with two digits."""
    return "unknown" if value is None else f"{value:z.2f}".replace("-", "−")
