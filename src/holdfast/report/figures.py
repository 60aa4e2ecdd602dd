"""Charts as plotly figures: plain data, drawn by the page in the colours of its theme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.report.curves import Chart, Curve

COLOURS = 6  # --series-0 ... in the style sheet
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x")
# Names come in as values, never as part of the template, so that they cannot hold placeholders of their own.
HOVER = "%{{fullData.name}}<br>%{{{}}} at %{{x}}<extra></extra>"
FEW = 30  # points of a line that are marked


@dataclass(frozen=True)
class Key:
    """An entry of a chart's legend.

    Args:
        label: a run or a kind of line.
        colour: number of the colour, or None for the colour of the text.
        dash: number of the dash.
    """

    label: str
    colour: int | None
    dash: int


@dataclass(frozen=True)
class Figure:
    """A chart ready to draw.

    Args:
        identifier: of its element on the page.
        title: heading.
        keys: legend.
        spec: data and layout for plotly; colours are names of variables of the style sheet.
    """

    identifier: str
    title: str
    keys: tuple[Key, ...]
    spec: dict[str, Any]


def figure(chart: Chart, labels: Sequence[str], identifier: str) -> Figure:
    """Draw a chart: with several runs colour tells runs and dashes tell kinds, with one run both tell kinds."""
    kinds = list(dict.fromkeys(curve.kind for curve in chart.curves))
    styles = [_style(curve, kinds, several=len(labels) > 1) for curve in chart.curves]
    traces = [
        _trace(curve, _name(curve, labels, kinds), colour, dash, chart.share)
        for curve, (colour, dash) in zip(chart.curves, styles, strict=True)
    ]
    return Figure(identifier, chart.title, _keys(chart, labels, kinds), {"data": traces, "layout": _layout(chart)})


def plain(text: str) -> str:
    """Text for plotly, which reads tags and entities in labels."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _style(curve: Curve, kinds: Sequence[str], *, several: bool) -> tuple[int, int]:
    kind = kinds.index(curve.kind)
    return (curve.run if several else kind) % COLOURS, kind % len(DASHES)


def _name(curve: Curve, labels: Sequence[str], kinds: Sequence[str]) -> str:
    if len(labels) == 1:
        return curve.kind
    return labels[curve.run] if len(kinds) == 1 else f"{labels[curve.run]}, {curve.kind}"


def _keys(chart: Chart, labels: Sequence[str], kinds: Sequence[str]) -> tuple[Key, ...]:
    if len(labels) == 1:
        return tuple(Key(kind, i % COLOURS, i % len(DASHES)) for i, kind in enumerate(kinds))
    present = {curve.run for curve in chart.curves}
    runs = [Key(label, i % COLOURS, 0) for i, label in enumerate(labels) if i in present]
    dashes = [Key(kind, None, i % len(DASHES)) for i, kind in enumerate(kinds)]
    return (*runs, *(dashes if len(kinds) > 1 else ()))


def _trace(curve: Curve, name: str, colour: int, dash: int, share: bool) -> dict[str, Any]:
    ink = f"var(--series-{colour})"
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers" if len(curve.x) <= FEW else "lines",
        "name": plain(name),
        "x": curve.x,
        "y": curve.y,
        "line": {"color": ink, "dash": DASHES[dash], "width": 2},
        "marker": {"color": ink, "symbol": SYMBOLS[dash], "size": 7},
        "hovertemplate": HOVER.format("y:.1%" if share else "y:.4g"),
    }
    if curve.low:
        trace["text"] = curve.notes
        trace["hovertemplate"] = HOVER.format("y:.1%").replace(" at", " %{text} at")
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


def _layout(chart: Chart) -> dict[str, Any]:
    axis = {
        "color": "var(--quiet)",
        "gridcolor": "var(--line)",
        "linecolor": "var(--line)",
        "zerolinecolor": "var(--line)",
        "automargin": True,
        "fixedrange": True,
    }
    font = {"family": "system-ui, sans-serif", "size": 13, "color": "var(--ink)"}
    share = {"range": [0, 1.02], "tickformat": ".0%", "dtick": 0.2}
    return {
        "showlegend": False,
        "height": 320,
        "margin": {"l": 48, "r": 12, "t": 12, "b": 48},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": font,
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "var(--raised)", "bordercolor": "var(--line)", "font": font},
        "dragmode": False,
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "var(--quiet)", "activecolor": "var(--ink)"},
        "xaxis": axis
        | {"title": {"text": plain(chart.x_title), "font": {"size": 13}, "standoff": 8}, "rangemode": "tozero"},
        "yaxis": axis | (share if chart.share else {"rangemode": "tozero"}),
    }
