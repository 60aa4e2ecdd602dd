"""Values over a grid as colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.show.chart import Chart
from holdfast.show.figures import SCALE, Figure, figure, plain

Grid = Sequence[Sequence[Any]]


def heat_map(
    title: str,
    values: Grid,
    *,
    axes: tuple[str, str],
    ends: tuple[float, float] | None = None,
    places: tuple[Sequence[float], Sequence[float]] | None = None,
    texts: Grid | None = None,
    hover: str = "%{z:.4g}",
    high_is_worse: bool = True,
    from_top: bool = False,
) -> Figure:
    """A square cell for each value, with a bar of the colours beside them.

    Args:
        title: heading.
        values: rows of values; None where there is none.
        axes: what runs along the rows, and what from row to row.
        ends: the values of the first and the last colour; None for the smallest and the largest.
        places: positions along the rows, and from row to row; None for 0, 1, 2, ...
        texts: of the cells, for `hover`.
        hover: what stands under the pointer, where `%{z}` is the value and `%{text}` the text of a cell.
        high_is_worse: whether high values have the colour for what is worse.
        from_top: whether the first row is at the top.
    """
    along, down = axes
    x, y = places or (range(len(values[0]) if values else 0), range(len(values)))
    trace: dict[str, Any] = {
        "type": "heatmap", "z": values, "x": list(x), "y": list(y), "colorscale": SCALE, "reversescale": high_is_worse,
        "hovertemplate": f"{hover}<extra></extra>",
        "colorbar": {"thickness": 10, "outlinewidth": 0, "tickfont": {"color": "var(--quiet)"}},
    }  # fmt: skip
    if ends is not None:
        trace |= {"zmin": ends[0], "zmax": ends[1]}
    if texts is not None:
        trace["text"] = [[plain(text) for text in row] for row in texts]
    made = figure(Chart(title, along, (), False), [""], "")
    layout = made.spec["layout"]
    layout["yaxis"] = layout["yaxis"] | {
        "title": {**layout["xaxis"]["title"], "text": plain(down)},
        "scaleanchor": "x",
        "autorange": "reversed" if from_top else True,
    }
    for axis in ("xaxis", "yaxis"):
        layout[axis].pop("rangemode", None)
        layout[axis] |= {"automargin": False, "zeroline": False, "constrain": "domain", "showgrid": False}
    layout["margin"] |= {"l": 56}
    return replace(made, keys=(), spec={"data": [trace], "layout": layout})
