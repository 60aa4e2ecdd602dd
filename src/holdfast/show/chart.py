"""Charts as data: lines over one axis, drawn later for the medium."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from holdfast.show.numbers import interval


@dataclass(frozen=True)
class Curve:
    """One line of a chart.

    Args:
        run: place of its run in the report.
        kind: what is drawn, the same word in all runs.
        x: positions.
        y: values.
        low: lower ends of the intervals, empty without.
        high: upper ends.
        bounds: which values are only upper bounds, empty for none.
        form: a line through the points, the points alone, or steps: `steps` holds each value from its point on,
            `until` up to its point and there too.
        ribbon: whether intervals are an area behind the line instead of a bar at each point.
    """

    run: int
    kind: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    bounds: tuple[bool, ...] = ()
    form: Literal["line", "steps", "until", "points"] = "line"
    ribbon: bool = False

    def notes(self, *, share: bool) -> tuple[str, ...]:
        """The intervals in words, for the labels that appear under the pointer."""
        ends = zip(self.low, self.high, self.bounds or (False,) * len(self.low), strict=True)
        if not share:
            return tuple(f"[{low:z.4g}, {high:z.4g}]" for low, high, _ in ends)
        return tuple(interval(low, high) + (" at most, unfinished" if bound else "") for low, high, bound in ends)


@dataclass(frozen=True)
class Band:
    """The area between two curves of steps.

    Args:
        kind: what lies there.
        above: its upper edge.
        below: its lower edge, over the same positions from the first to the last.
    """

    kind: str
    above: Curve
    below: Curve


@dataclass(frozen=True)
class Mark:
    """A point to compare with, drawn as two dashed lines that meet there.

    Args:
        text: what it is.
        x: position.
        y: value.
    """

    text: str
    x: float
    y: float


@dataclass(frozen=True)
class Box:
    """A distribution in five numbers, drawn as a box with two whiskers.

    Args:
        run: place of its run in the report.
        name: what is distributed, written below it.
        low: end of the lower whisker.
        lower: first quarter.
        median: half.
        upper: third quarter.
        high: end of the upper whisker.
    """

    run: int
    name: str
    low: float
    lower: float
    median: float
    upper: float
    high: float


@dataclass(frozen=True)
class Chart:
    """Lines over one axis, or boxes beside each other.

    Args:
        title: heading.
        x_title: what runs along the axis.
        curves: the lines.
        share: whether values are shares, written in percent.
        whole: whether shares are drawn from 0 to 100 %.
        bands: areas behind the lines.
        mark: a point to compare with.
        ticks: names of the positions 0, 1, 2, ..., where they are no numbers.
        boxes: boxes instead of lines.
        x_share: whether positions are shares, written in percent.
        from_zero: whether the axis of values begins at 0.
        log_x: whether the positions have a logarithmic axis.
        log_y: whether the values have one.
        alone: whether it is about one run, which its title names, so that colours tell kinds of lines.
    """

    title: str
    x_title: str
    curves: tuple[Curve, ...]
    share: bool
    whole: bool = True
    bands: tuple[Band, ...] = ()
    mark: Mark | None = None
    ticks: tuple[str, ...] = ()
    boxes: tuple[Box, ...] = ()
    x_share: bool = False
    from_zero: bool = True
    log_x: bool = False
    log_y: bool = False
    alone: bool = False

    def _repr_html_(self) -> str:
        """The chart in a notebook; runs go by their numbers, since only a report knows their names."""
        from holdfast.show.page import to_html

        runs = max((curve.run for curve in self.curves), default=0) + 1
        return to_html([self], [f"run {number}" for number in range(runs)])
