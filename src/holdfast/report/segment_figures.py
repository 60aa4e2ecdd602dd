"""Charts of the loss on the way to an attack's point and of its Taylor expansions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from holdfast.analysis.segment_summary import Lines, SegmentSummary, lines
from holdfast.analysis.spread import Spread
from holdfast.show.chart import Chart, Curve
from holdfast.show.figures import COLOURS, Figure, figure
from holdfast.show.numbers import short

KINDS = {"loss": "loss", "first": "first order", "second": "second order"}
WAY = "way from the image to the attack’s point"
RANKS = {"small": 0.1, "middling": 0.5, "large": 0.9}
"""Images that are drawn alone: the share of all whose second order errs less at the end."""


@dataclass(frozen=True)
class Asked:
    """The segments of one network.

    Args:
        place: of its run in the report.
        who: its name.
        settings: what was asked.
        rows: of each image.
        found: the same in few numbers.
    """

    place: int
    who: str
    settings: Any
    rows: pl.DataFrame
    found: SegmentSummary

    @property
    def way(self) -> str:
        """Which segments, and where the expansions are made."""
        around = self.settings["around"]
        return f"{self.settings['attack']}, expanded at {'the image' if around == 0 else short(float(around))}"

    @property
    def details(self) -> str:
        """The same with all that can be asked."""
        return f"{self.way}, {self.settings['points']} points, tolerance {self.tolerance}"

    @property
    def tolerance(self) -> str:
        """Error of an expansion that is still right."""
        return short(float(self.settings["tolerance"]))

    @property
    def places(self) -> tuple[float, ...]:
        """Of the curves."""
        return tuple(at.place for at in self.found.curve)


def charts(found: Sequence[Asked], labels: Sequence[str]) -> list[Figure]:
    """The mean curves of every network; then, for every way of asking, reach and single images."""
    drawn = [mean_chart(one, f"segment-mean-{number}") for number, one in enumerate(found)]
    ways = list(dict.fromkeys(one.details for one in found))
    for number, way in enumerate(ways):
        alike, note = [one for one in found if one.details == way], f", {way}" if len(ways) > 1 else ""
        drawn.append(reach_chart(alike, labels, f"segment-reach-{number}", note))
        drawn += single_charts(alike, labels, f"segment-image-{number}", note)
    return drawn


def mean_chart(one: Asked, identifier: str) -> Figure:
    """Mean loss and expansions of one network, with the 95 % intervals of their means as ribbons."""
    curves, ribbons = [], []
    for number, (name, kind) in enumerate(KINDS.items()):
        means = [getattr(at, name) for at in one.found.curve]
        curves.append(Curve(0, kind, one.places, tuple(mean.mean for mean in means)))
        ribbons.append(_ribbon(one.places, means, number))
    # networks differ in scale, and colours tell the three lines apart better than dashes
    made = figure(Chart(f"Mean loss of {one.who}", WAY, tuple(curves), False), [one.who], identifier)
    return replace(made, spec={**made.spec, "data": [*ribbons, *made.spec["data"]]})


def _ribbon(places: tuple[float, ...], means: Sequence[Spread], colour: int) -> dict[str, Any]:
    high, low = ([mean.mean + sign * (mean.half or 0.0) for mean in means] for sign in (1, -1))
    return {
        "type": "scatter", "mode": "lines", "x": [*places, *reversed(places)], "y": [*high, *reversed(low)],
        "line": {"width": 0}, "fill": "toself", "fillcolor": f"var(--series-{colour % COLOURS})", "opacity": 0.15,
        "hoverinfo": "skip", "name": "",
    }  # fmt: skip


def reach_chart(found: Sequence[Asked], labels: Sequence[str], identifier: str, note: str = "") -> Figure:
    """Share of the images whose expansions have been within the tolerance so far."""
    curves = []
    for one in found:
        for name in ("first", "second"):
            shares = tuple(getattr(at, f"{name}_within") for at in one.found.curve)
            curves.append(Curve(one.place, KINDS[name], one.places, shares))
    title = f"Images whose expansion is within {found[0].tolerance} of the loss so far{note}"
    return figure(Chart(title, WAY, tuple(curves), True), labels, identifier)


def single_charts(found: Sequence[Asked], labels: Sequence[str], identifier: str, note: str = "") -> list[Figure]:
    """Single images, chosen by the error of the first network's second order; the same images of every network."""
    drawn = []
    for number, (word, example) in enumerate(chosen(found[0]).items()):
        curves = [curve for one in found for curve in _curves(one, image(one, example, found[0]))]
        title = f"Image {example}, of {word} error{note}"
        drawn.append(figure(Chart(title, WAY, tuple(curves), False), labels, f"{identifier}-{number}"))
    return drawn


def chosen(one: Asked) -> dict[str, int]:
    """Images whose second order errs by little, middling and much at the end."""
    order = np.argsort(abs(one.rows["second_end"].to_numpy()), kind="stable")
    places = {word: int(order[round(share * (len(order) - 1))]) for word, share in RANKS.items()}
    return {word: int(one.rows["example"][place]) for word, place in places.items()}


def image(one: Asked, example: int, of: Asked) -> Lines | None:
    """The curves of one image; None where this network has not seen it, or another image under its number."""
    row = one.rows.filter(pl.col("example") == example)
    if row.is_empty() or one.settings["fingerprint"] != of.settings["fingerprint"]:
        return None
    return lines(row, around=one.settings["around"])


def _curves(one: Asked, drawn: Lines | None) -> list[Curve]:
    if drawn is None:
        return []
    values = {kind: tuple(getattr(drawn, name)[0].tolist()) for name, kind in KINDS.items()}
    return [Curve(one.place, kind, tuple(drawn.places.tolist()), y) for kind, y in values.items()]
