"""Charts as plotly figures: plain data, drawn by the page in the colours of its theme."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.show.axes import plain as plain
from holdfast.show.axes import x_axis, y_axis
from holdfast.show.chart import Box, Chart, Curve, Mark

COLOURS = 6  # --series-0 ... in the style sheet
BAND = "var(--quiet)"  # colour of areas that belong to no line
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x")
# Names come in as values, never as part of the template, so that they cannot hold placeholders of their own.
HOVER = "%{{fullData.name}}<br>%{{{}}} at %{{x}}<extra></extra>"
FEW = 30  # points of a line that are marked
SCALE = [[0.0, "rgb(224,130,20)"], [0.5, "rgb(228,224,210)"], [1.0, "rgb(43,123,185)"]]
"""Colours from worse to better that stand on light and dark pages."""
SHAPES = {"steps": "hv", "until": "vh"}  # of lines that are not straight
ROOM = 36  # letters that stand beside each other under boxes


@dataclass(frozen=True)
class Key:
    """An entry of a chart's legend.

    Args:
        label: a run or a kind of line.
        colour: number of the colour, or None for the colour of the text.
        dash: number of the dash, or of the symbol.
        point: whether it is a symbol instead of a line.
        row: whether a new row of the legend begins here.
        area: whether it is a band instead of a line.
    """

    label: str
    colour: int | None
    dash: int
    point: bool = False
    row: bool = False
    area: bool = False


@dataclass(frozen=True)
class Figure:
    """A chart ready to draw.

    Args:
        identifier: of its element on the page.
        title: heading.
        keys: legend.
        spec: data and layout for plotly; colours are names of variables of the style sheet.
        note: what is seen in it, in a sentence or two; empty for none.
    """

    identifier: str
    title: str
    keys: tuple[Key, ...]
    spec: dict[str, Any]
    note: str = ""


def figure(chart: Chart, labels: Sequence[str], identifier: str = "") -> Figure:
    """Draw a chart: with several runs colour tells runs and dashes tell kinds, with one run both tell kinds.

    Kinds that are points alone are told by their symbols in the same way. Intervals of steps are bands behind them.
    """
    kinds, labels = _Kinds.of(chart), [""] if chart.alone else labels
    styles = [kinds.style(curve, several=len(labels) > 1) for curve in chart.curves]
    areas = [_area(band.above, band.below, BAND, 0.16, plain(band.kind)) for band in chart.bands]
    areas += [
        _area(replace(curve, y=curve.high), replace(curve, y=curve.low), f"var(--series-{colour})", 0.18)
        for curve, (colour, _) in zip(chart.curves, styles, strict=True)
        if _has_area(curve)
    ]
    traces = [
        _trace(curve, _name(curve, labels, kinds), colour, dash, chart.share)
        for curve, (colour, dash) in zip(chart.curves, styles, strict=True)
    ]
    boxes = [_box(box, box.run if len(labels) > 1 else 0) for box in chart.boxes]
    spec = {"data": [*areas, *traces, *boxes], "layout": _layout(chart)}
    return Figure(identifier, chart.title, _keys(chart, labels, kinds), spec)


@dataclass(frozen=True)
class _Kinds:
    """What a chart draws: kinds of lines, and kinds of points."""

    lines: tuple[str, ...]
    points: tuple[str, ...]

    @classmethod
    def of(cls, chart: Chart) -> _Kinds:
        lines = dict.fromkeys(curve.kind for curve in chart.curves if curve.form != "points")
        points = dict.fromkeys(curve.kind for curve in chart.curves if curve.form == "points")
        return cls(tuple(lines), tuple(points))

    def __len__(self) -> int:
        return len(self.lines) + len(self.points)

    def style(self, curve: Curve, *, several: bool) -> tuple[int, int]:
        """Number of the colour, and of the dash or symbol."""
        points = curve.form == "points"
        own = (self.points if points else self.lines).index(curve.kind)
        colour = curve.run if several else own + (len(self.lines) if points else 0)
        return colour % COLOURS, own % len(DASHES)


def _name(curve: Curve, labels: Sequence[str], kinds: _Kinds) -> str:
    if len(labels) == 1:
        return curve.kind
    return labels[curve.run] if len(kinds) == 1 else f"{labels[curve.run]}, {curve.kind}"


def _keys(chart: Chart, labels: Sequence[str], kinds: _Kinds) -> tuple[Key, ...]:
    several, first = len(labels) > 1, len(kinds.lines)
    lines = [
        Key(kind, None if several else i % COLOURS, i % len(DASHES), row=several and i == 0)
        for i, kind in enumerate(kinds.lines)
    ]
    points = [
        Key(kind, None if several else (first + i) % COLOURS, i % len(SYMBOLS), point=True, row=i == 0 and bool(lines))
        for i, kind in enumerate(kinds.points)
    ]
    bands = [Key(band.kind, None, 0, area=True) for band in chart.bands]
    if not several:
        return (*lines, *points, *bands)
    present = {curve.run for curve in chart.curves}
    runs = [Key(label, i % COLOURS, 0) for i, label in enumerate(labels) if i in present]
    return (*runs, *(lines if len(kinds) > 1 else ()), *points, *bands)


def _trace(curve: Curve, name: str, colour: int, dash: int, share: bool) -> dict[str, Any]:
    ink = f"var(--series-{colour})"
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": _mode(curve),
        "name": plain(name),
        "x": curve.x,
        "y": curve.y,
        "line": {"color": ink, "dash": DASHES[dash], "width": 2, "shape": SHAPES.get(curve.form, "linear")},
        "marker": {"color": ink, "symbol": _symbols(curve, dash), "size": 9 if curve.form == "points" else 7},
        "hovertemplate": HOVER.format("y:.1%" if share else "y:.4g"),
    }
    if curve.low:
        trace["text"] = curve.notes(share=share)
        trace["hovertemplate"] = trace["hovertemplate"].replace(" at", " %{text} at")
    if curve.low and not _has_area(curve):
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [high - y for high, y in zip(curve.high, curve.y, strict=True)],
            "arrayminus": [y - low for low, y in zip(curve.low, curve.y, strict=True)],
            "color": ink,
            "thickness": 1.2,
            "width": 3,
        }
    return trace


def _area(above: Curve, below: Curve, colour: str, opacity: float, name: str = "") -> dict[str, Any]:
    """A band between two curves as one closed line, which needs no other trace to be drawn right."""
    edge = [*_corners(above), *reversed(_corners(below))]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [x for x, _ in edge],
        "y": [y for _, y in edge],
        "line": {"width": 0},
        "fill": "toself",
        "fillcolor": colour,
        "opacity": opacity,
        "hoverinfo": "skip",
    }


def _has_area(curve: Curve) -> bool:
    """Whether the intervals of a curve are an area."""
    return bool(curve.low) and (curve.form in SHAPES or curve.ribbon)


def _box(box: Box, colour: int) -> dict[str, Any]:
    return {
        "type": "box", "name": plain(box.name), "x": [plain(box.name)], "lowerfence": [box.low], "q1": [box.lower],
        "median": [box.median], "q3": [box.upper], "upperfence": [box.high],
        "line": {"color": f"var(--series-{colour % COLOURS})", "width": 2}, "fillcolor": "rgba(0,0,0,0)",
        "hoverinfo": "y",
    }  # fmt: skip


def _corners(curve: Curve) -> list[tuple[float, float]]:
    """The points of a curve, with the corners between them where it has steps."""
    points = list(zip(curve.x, curve.y, strict=True))
    if curve.form not in SHAPES:
        return points
    corners = points[:1]
    for (x, y), (then, after) in itertools.pairwise(points):
        corners += [(then, y) if curve.form == "steps" else (x, after), (then, after)]
    return corners


def _mode(curve: Curve) -> str:
    if curve.form == "line":
        return "lines+markers" if len(curve.x) <= FEW else "lines"
    return "markers" if curve.form == "points" else "lines"


def _symbols(curve: Curve, number: int) -> str | list[str]:
    """The symbol of a line's points; hollow where a value is only an upper bound."""
    symbol = SYMBOLS[number]
    return [f"{symbol}-open" if bound else symbol for bound in curve.bounds] if any(curve.bounds) else symbol


def _layout(chart: Chart) -> dict[str, Any]:
    font = {"family": "system-ui, sans-serif", "size": 13, "color": "var(--ink)"}
    names = [box.name for box in chart.boxes]  # long ones are turned, and take the height that they need
    height = 320 + (6 * max(map(len, names)) if sum(map(len, names)) > ROOM else 0)
    return {
        "showlegend": False,
        "height": height,
        "margin": {"l": 48, "r": 12, "t": 12, "b": 48},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": font,
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "var(--raised)", "bordercolor": "var(--line)", "font": font},
        "dragmode": False,
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "var(--quiet)", "activecolor": "var(--ink)"},
        "xaxis": x_axis(chart),
        "yaxis": y_axis(chart),
        **(_marked(chart.mark) if chart.mark else {}),
    }


def _marked(mark: Mark) -> dict[str, Any]:
    line = {"type": "line", "line": {"color": "var(--quiet)", "width": 1, "dash": "dash"}}
    note = {"x": mark.x, "y": mark.y, "text": plain(mark.text), "showarrow": False, "font": {"size": 11}}
    return {
        "shapes": [
            line | {"x0": mark.x, "x1": mark.x, "yref": "paper", "y0": 0, "y1": 1},
            line | {"xref": "paper", "x0": 0, "x1": 1, "y0": mark.y, "y1": mark.y},
        ],
        "annotations": [note | {"xanchor": "right", "yanchor": "bottom"}],
    }
