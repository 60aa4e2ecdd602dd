"""Curvature of the loss at the images, with right answers under noise and stability: as analyses measured them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from holdfast.analysis.curvature_and_noise import Box, Correlation, CurvatureSummary, summarise
from holdfast.analysis.spread import give_or_take
from holdfast.report import stability
from holdfast.report.runs import RunData, measured
from holdfast.show.chart import Chart, Curve
from holdfast.show.figures import COLOURS, Figure, figure, plain
from holdfast.show.numbers import count, decimal, interval, percent, short
from holdfast.show.table import Cell, Table

SMALLEST = 1e-12
"""What is smaller is drawn here: logarithms have no zero, and float32 has not much below."""
ROOM = 36
"""Letters that stand beside each other under a chart."""
LOGARITHMIC = {"type": "log", "exponentformat": "power"}


@dataclass(frozen=True)
class Curvatures:
    """The section on curvature and stability.

    Args:
        summary: of each network, None where nobody asked.
        drawn: the distribution over the images, accuracy under noise of those of lowest curvature, and mean curvature
            by right answers under noise.
        numbers: the same in tables.
        stable: charts of stability.
        stability: their table, None where nobody asked.
        bounds: what theorem 6.1 says of each network.
        verdicts: the same in words.
    """

    summary: Table | None
    drawn: Sequence[Figure]
    numbers: Sequence[Table]
    stable: Sequence[Figure]
    stability: Table | None
    bounds: Table | None
    verdicts: Sequence[str]

    name: ClassVar[str] = "curvature"
    title: ClassVar[str] = "Curvature and stability"

    @classmethod
    def of(cls, runs: Sequence[RunData], labels: Sequence[str]) -> Curvatures:
        """What analyses measured of these runs."""
        found, moved = _summaries(runs), stability.curves(runs)
        return cls(
            summary=summary_table(found),
            drawn=charts(found, labels),
            numbers=[box_table(found), lowest_table(found), group_table(found)] if found else [],
            stable=stability.charts(moved, labels),
            stability=stability.table(moved),
            bounds=stability.bounds_table(moved),
            verdicts=[stability.verdict(one) for one in moved],
        )

    @property
    def figures(self) -> Sequence[Figure]:
        """What the page has to draw."""
        return (*self.drawn, *self.stable)

    @property
    def there(self) -> bool:
        """Whether there is anything to show."""
        return self.summary is not None or self.stability is not None


@dataclass(frozen=True)
class Summed:
    """The curvature of one network.

    Args:
        place: of its run in the report.
        who: its name.
        network: the same without how it was asked.
        settings: what was asked.
        found: what was found.
    """

    place: int
    who: str
    network: str
    settings: Any
    found: CurvatureSummary

    @property
    def noise(self) -> str:
        """The noise in words."""
        return f"{self.settings['noise']} noise of {short(self.settings['strength'])}"

    @property
    def way(self) -> str:
        """How products with the Hessian were made."""
        unit = "normalised inputs" if self.settings["normalised"] else "pixels"
        return f"{self.settings['draws']} {stability.products(self.settings['step'])}, {unit}"


def _summaries(runs: Sequence[RunData]) -> list[Summed]:
    found = []
    for place, who, one in measured(runs, "curvature"):
        settings = one.question.settings
        found.append(Summed(place, who, who, settings, summarise(one.rows, copies=settings["copies"])))
    names = [one.who for one in found]  # a network that was asked in several ways is told by them
    return [
        one if names.count(one.who) == 1 else replace(one, who=f"{one.who}, {one.way}, {one.noise}") for one in found
    ]


def summary_table(found: Sequence[Summed]) -> Table | None:
    """Curvature, gradient and largest eigenvalue of each network; None where nobody asked."""
    rows = []
    for one in found:
        bend, error, largest = one.found.curvature, one.found.relative_error, one.found.eigenvalue
        cells = [
            Cell(short(one.found.median)), Cell(short(bend.mean), give_or_take(bend.half, short)),
            Cell("" if error is None else percent(error)), Cell(short(one.found.gradient_norm)),
            Cell("not asked" if largest is None else short(largest), _residual(one.found)),
            Cell(percent(one.found.right_under_noise), one.noise),
            Cell(count(one.found.examples)), Cell(one.way, words=True),
        ]  # fmt: skip
        rows.append((one.who, cells))
    columns = (
        "Curvature, median", "Curvature, mean, 95 %", "Error of one image", "Gradient norm, median",
        "Largest eigenvalue, median", "Right under noise", "Images", "Measured by",
    )  # fmt: skip
    return Table("Curvature of the loss at the images", "Run", columns, rows) if rows else None


def _residual(found: CurvatureSummary) -> str:
    return "" if found.residual is None else f"residual {percent(found.residual)}"


def charts(found: Sequence[Summed], labels: Sequence[str]) -> list[Figure]:
    """Figures 10, 8 and 9; those of curvature once for every way of measuring it."""
    ways = list(dict.fromkeys(one.way for one in found))
    drawn = []
    for number, way in enumerate(ways):
        alike, note = [one for one in found if one.way == way], f", {way}" if len(ways) > 1 else ""
        drawn += [boxes(alike, labels, f"curvature-boxes-{number}", note)]
        drawn += [lowest(alike, labels, f"curvature-lowest-{number}", note)]
        drawn += [groups(alike, labels, f"curvature-groups-{number}", note)]
    return drawn


def boxes(found: Sequence[Summed], labels: Sequence[str], identifier: str, note: str = "") -> Figure:
    """Figure 10: the lowest 90 % of the images of each network."""
    drawn = figure(Chart(f"Curvature of the lowest 90 % of the images{note}", "", (), False), labels, identifier)
    networks = {one.network: one for one in found}  # asked with another noise, a network has the same curvature
    layout = with_axes(drawn.spec["layout"], y=LOGARITHMIC)
    if sum(map(len, networks)) > ROOM:  # names are turned, and take the height that they need
        layout["height"] += 6 * max(map(len, networks))
    return replace(drawn, spec={"data": [_box(one, len(labels) > 1) for one in networks.values()], "layout": layout})


def box_table(found: Sequence[Summed]) -> Table:
    """The boxes in numbers."""
    columns = ("5 %", "25 %", "Median", "75 %", "95 %", "Images")
    rows = [
        (one.who, [*(Cell(short(value)) for value in _five(one.found.box)), Cell(count(one.found.box.examples))])
        for one in found
    ]
    return Table("Quantiles of the lowest 90 %", "Run", columns, rows)


def _five(box: Box) -> tuple[float, ...]:
    return box.low, box.lower, box.median, box.upper, box.high


def _box(one: Summed, several: bool) -> dict[str, Any]:
    low, lower, median, upper, high = (max(value, SMALLEST) for value in _five(one.found.box))
    ink = f"var(--series-{(one.place if several else 0) % COLOURS})"
    return {
        "type": "box", "name": plain(one.network), "x": [plain(one.network)], "lowerfence": [low], "q1": [lower],
        "median": [median], "q3": [upper], "upperfence": [high], "line": {"color": ink, "width": 2},
        "fillcolor": "rgba(0,0,0,0)", "hoverinfo": "y",
    }  # fmt: skip


def lowest(found: Sequence[Summed], labels: Sequence[str], identifier: str, note: str = "") -> Figure:
    """Figure 8: accuracy under noise of the images of lowest curvature."""
    curves = []
    for one in found:
        kept = one.found.lowest
        x, y = tuple(point.share for point in kept), tuple(point.accuracy for point in kept)
        low, high = (tuple(getattr(point.interval, end) for point in kept) for end in ("low", "high"))
        curves.append(Curve(one.place, one.noise, x, y, low, high))
    chart = Chart(f"Right under noise{note}", "images kept, lowest curvature first", tuple(curves), True, whole=False)
    drawn = figure(chart, labels, identifier)
    layout = with_axes(drawn.spec["layout"], x={"tickformat": ".0%"}, y={"rangemode": "normal"})
    return replace(drawn, spec={**drawn.spec, "layout": layout})


def lowest_table(found: Sequence[Summed]) -> Table:
    """Figure 8 in numbers."""
    shares = [f"{100 * point.share:.0f} %" for point in found[0].found.lowest]
    rows = [
        (one.who, [Cell(percent(p.accuracy), interval(p.interval.low, p.interval.high)) for p in one.found.lowest])
        for one in found
    ]
    return Table("Noisy copies that are right, of the images of lowest curvature", "Run", shares, rows)


def groups(found: Sequence[Summed], labels: Sequence[str], identifier: str, note: str = "") -> Figure:
    """Figure 9: mean curvature by the number of right answers under noise."""
    curves = []
    for one in found:
        bent = [group for group in one.found.groups if group.curvature.mean > 0]
        x, y = tuple(float(group.right) for group in bent), tuple(group.curvature.mean for group in bent)
        curves.append(Curve(one.place, f"{one.noise}, {one.settings['copies']} copies", x, y))
    title = f"Curvature by right answers under noise{note}"
    drawn = figure(Chart(title, "copies that are right", tuple(curves), False), labels, identifier)
    layout = with_axes(drawn.spec["layout"], y={**LOGARITHMIC, "dtick": 1})
    return replace(drawn, spec={**drawn.spec, "layout": layout})


def group_table(found: Sequence[Summed]) -> Table:
    """Figure 9 in numbers, with the correlations."""
    numbers = sorted({group.right for one in found for group in one.found.groups})
    rows = []
    for one in found:
        cells = {
            group.right: Cell(
                short(group.curvature.mean), f"{give_or_take(group.curvature.half, short)}, {count(group.examples)}"
            )
            for group in one.found.groups
        }
        last = [_correlation(one.found.correlation_of_means), _correlation(one.found.correlation)]
        rows.append((one.who, [*(cells.get(number, Cell("")) for number in numbers), *last]))
    columns = [*(f"{number} right" for number in numbers), "Correlation, groups", "Correlation, images"]
    return Table("Mean curvature, its 95 % interval, and how many images, by right answers", "Run", columns, rows)


def _correlation(found: Correlation) -> Cell:
    if found.value is None:
        return Cell("unknown", "nothing varies")
    ends = found.interval
    return Cell(decimal(found.value, 2), "" if ends is None else f"[{decimal(ends.low, 2)}, {decimal(ends.high, 2)}]")


def with_axes(layout: dict[str, Any], **changes: dict[str, Any]) -> dict[str, Any]:
    """A layout with other axes, `x` and `y`."""
    return {**layout, **{f"{axis}axis": {**layout[f"{axis}axis"], **change} for axis, change in changes.items()}}
