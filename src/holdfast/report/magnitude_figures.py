"""Charts of the sizes of gradients of two networks: distributions by class, and correlations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.analysis.magnitude_summary import MagnitudeSummary
from holdfast.show.chart import Chart
from holdfast.show.figures import SCALE, Figure, Key, figure, plain

MOST = 20
"""Classes whose distributions are drawn."""

SIDES = {"standard": "negative", "robust": "positive"}


def violin_chart(found: MagnitudeSummary, classes: Sequence[str], title: str, identifier: str) -> Figure:
    """Figure 2: the sizes of each class, the standard network to the left and the robust one to the right."""
    data: list[dict[str, Any]] = []
    for colour, (who, side) in enumerate(SIDES.items()):
        columns = getattr(found, who)[:MOST]
        data.append(
            {
                "type": "violin", "name": who, "side": side, "points": False, "scalemode": "width", "width": 0.9,
                "x": [place for place, column in enumerate(columns) for _ in column],
                "y": [_round(value) for column in columns for value in column],
                "line": {"color": f"var(--series-{colour})", "width": 1.2}, "spanmode": "hard", "hoverinfo": "y+name",
            }
        )  # fmt: skip
    made = figure(Chart(title, "class", (), False, ticks=tuple(classes[:MOST])), [""], identifier)
    layout = made.spec["layout"]
    positive = all(value > 0 for trace in data for value in trace["y"])
    scale = {"type": "log", "tickformat": ".3~g"} if positive else {}
    layout = {**layout, "violinmode": "overlay", "yaxis": {**layout["yaxis"], "rangemode": "normal", **scale}}
    keys = tuple(Key(f"{who} network", colour, 0) for colour, who in enumerate(SIDES))
    return replace(made, keys=keys, spec={"data": data, "layout": layout})


def correlation_chart(found: MagnitudeSummary, classes: Sequence[str], title: str, identifier: str) -> Figure:
    """Figure 3: correlations of all sizes; the standard network's classes come first, then the robust one's."""
    names = [f"{who} {name}" for who in ("g", "h") for name in classes]
    count = len(names)
    rounded = [[None if value is None else round(value, 3) for value in row] for row in found.correlation]
    trace: dict[str, Any] = {
        "type": "heatmap", "z": rounded, "zmin": -1, "zmax": 1, "colorscale": SCALE,
        "x": [*range(count)], "y": [*range(count)],
        "text": [[f"{plain(down)}, {plain(across)}" for across in names] for down in names],
        "hovertemplate": "%{text}<br>%{z:.2f}<extra></extra>",
        "colorbar": {"thickness": 10, "outlinewidth": 0, "tickfont": {"color": "var(--quiet)"}, "dtick": 0.5},
    }  # fmt: skip
    made = figure(Chart(title, "g: standard network, h: robust network", (), False), [""], identifier)
    layout, step = made.spec["layout"], max(1, count // 10)
    ticks = {
        "tickvals": [*range(0, count, step)],
        "ticktext": [plain(name) for name in names[::step]],
        "zeroline": False,
    }
    axes = {"xaxis": {**layout["xaxis"], **ticks, "rangemode": "normal", "showgrid": False}}
    axes["yaxis"] = {**layout["yaxis"], **ticks, "rangemode": "normal", "showgrid": False, "autorange": "reversed"}
    line = {"type": "line", "line": {"color": "var(--ink)", "width": 1}}
    middle, ends = count / 2 - 0.5, (-0.5, count - 0.5)
    shapes = [
        line | {"x0": middle, "x1": middle, "y0": ends[0], "y1": ends[1]},
        line | {"x0": ends[0], "x1": ends[1], "y0": middle, "y1": middle},
    ]
    return replace(made, keys=(), spec={"data": [trace], "layout": {**layout, **axes, "shapes": shapes}})


def _round(value: float) -> float:
    return float(f"{value:z.4g}")
