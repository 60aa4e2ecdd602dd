"""The axes of plotly figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from holdfast.show.chart import Chart
from holdfast.show.numbers import short
from holdfast.show.text import visible

TICKS = 12  # positions that are ticks of a logarithmic axis
DECADES = 6  # powers of ten that are
LOGARITHMIC = {"type": "log", "exponentformat": "power"}
AXIS = {
    "color": "var(--quiet)",
    "gridcolor": "var(--line)",
    "linecolor": "var(--line)",
    "zerolinecolor": "var(--line)",
    "automargin": True,
    "fixedrange": True,
}

PERCENT = ".1~%"
"""Shares as ticks: with a decimal where neighbouring ticks need one."""


def plain(text: str) -> str:
    """Text for plotly, which reads tags and entities in labels; control characters are written out."""
    return visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def x_axis(chart: Chart) -> dict[str, Any]:
    """The axis of positions."""
    title = {"text": plain(chart.x_title), "font": {"size": 13}, "standoff": 8}
    return (
        AXIS
        | {"title": title, "rangemode": "normal" if chart.x_share and not chart.from_zero else "tozero"}
        | (_named(chart.ticks) if chart.ticks else {})
        | ({"tickformat": PERCENT} if chart.x_share else {})
        | (LOGARITHMIC | _few_ticks(chart) if chart.log_x else {})
    )


def y_axis(chart: Chart) -> dict[str, Any]:
    """The axis of values."""
    share = {"range": [0, 1.02], "tickformat": ".0%", "dtick": 0.2} if chart.whole else {"tickformat": PERCENT}
    return (
        AXIS
        | {"rangemode": "tozero" if chart.from_zero else "normal"}
        | (share if chart.share else {})
        | (LOGARITHMIC | _decades(chart) if chart.log_y else {})
    )


def _few_ticks(chart: Chart) -> dict[str, Any]:
    """The positions themselves as ticks, where they are few."""
    positions = sorted({x for curve in chart.curves for x in curve.x})
    few = len(positions) <= TICKS
    return {"tickvals": positions, "ticktext": [short(position) for position in positions]} if few else {}


def _decades(chart: Chart) -> dict[str, Any]:
    """A tick for each power of ten, where the values span some of them."""
    values = [value for curve in chart.curves for value in curve.y if value > 0]
    span = math.log10(max(values) / min(values)) if values else 0.0
    return {"dtick": 1} if 1 <= span <= DECADES else {}


def _named(ticks: Sequence[str]) -> dict[str, Any]:
    return {
        "tickvals": [*range(len(ticks))], "ticktext": [plain(tick) for tick in ticks], "zeroline": False,
        "range": [-0.4, len(ticks) - 0.6], "ticklabeloverflow": "allow",
    }  # fmt: skip
