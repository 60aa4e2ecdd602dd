"""Charts of the loss on the way to an attack's point and of its Taylor expansions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from holdfast.questions.answers import Answer
from holdfast.questions.segment.summary import Lines, SegmentSummary, lines
from holdfast.show.chart import Chart, Curve
from holdfast.show.figures import Figure, figure
from holdfast.show.items import Item
from holdfast.show.numbers import short

KINDS = {"loss": "loss", "first": "first order", "second": "second order"}
WAY = "way to the attack’s point"
RANKS = {"small": 0.1, "middling": 0.5, "large": 0.9}
"""Images that are drawn alone: the share of all whose second order errs less at the end."""


@dataclass(frozen=True)
class Segment:
    """The segments of one network.

    Args:
        name: of the answer.
        answer: what was measured.
    """

    name: str
    answer: Answer

    @property
    def settings(self) -> Any:
        """How it was measured."""
        return self.answer.settings

    @property
    def way(self) -> str:
        """Which segments, and where the expansions are made."""
        around = self.settings["around"]
        return f"{self.settings['attack']}, expanded at {'the image' if around == 0 else short(float(around))}"

    @property
    def details(self) -> str:
        """The same with all other settings."""
        return f"{self.way}, {self.settings['points']} points, tolerance {self.tolerance}"

    @property
    def tolerance(self) -> str:
        """Error of an expansion that still counts as right."""
        return short(float(self.settings["tolerance"]))

    @cached_property
    def summary(self) -> SegmentSummary:
        """The rows in few numbers."""
        return SegmentSummary(self.answer.rows, self.settings["around"])

    @property
    def places(self) -> tuple[float, ...]:
        """Points of the segments."""
        return tuple(at.place for at in self.summary.curve)


@dataclass(frozen=True)
class Image:
    """An image that is drawn alone.

    Args:
        example: its index.
        number: made of its pixels.
    """

    example: int
    number: int


def charts(some: Sequence[Segment]) -> Iterator[Item]:
    """The mean curves of every network; then, for every way of measuring, reach and single images."""
    yield from map(_mean_figure, some)
    ways = list(dict.fromkeys(one.details for one in some))
    for way in ways:
        alike, note = [one for one in some if one.details == way], f", {way}" if len(ways) > 1 else ""
        yield _reach_chart(alike, note)
        for word, image in chosen_images(alike[0]).items():
            curves = tuple(curve for one in alike for curve in _image_curves(one, image))
            yield Chart(f"Image {image.example}, of {word} error{note}", WAY, curves, False)


def _mean_figure(one: Segment) -> Figure:
    """Mean loss and expansions of one network: networks differ in scale, and colours distinguish lines best."""
    curves = []
    for name, kind in KINDS.items():
        means = [getattr(at, name) for at in one.summary.curve]
        low, high = (tuple(mean.mean + sign * (mean.half or 0.0) for mean in means) for sign in (-1, 1))
        curves.append(Curve(0, kind, one.places, tuple(mean.mean for mean in means), low, high, ribbon=True))
    return figure(Chart(f"Mean loss of {one.name}, with 95 % intervals", WAY, tuple(curves), False), [one.name], "")


def _reach_chart(some: Sequence[Segment], note: str) -> Chart:
    """Share of the images whose expansions have been within the tolerance so far."""
    curves = []
    for one in some:
        for name in ("first", "second"):
            shares = tuple(getattr(at, f"{name}_within") for at in one.summary.curve)
            curves.append(Curve(one.answer.place, KINDS[name], one.places, shares))
    title = f"Images whose expansion is within {some[0].tolerance} of the loss so far{note}"
    return Chart(title, WAY, tuple(curves), True)


def chosen_images(one: Segment) -> dict[str, Image]:
    """Images whose second order errs by little, middling and much at the end."""
    rows = one.answer.rows
    order = np.argsort(abs(rows["second_end"].to_numpy()), kind="stable")
    places = {word: int(order[round(share * (len(order) - 1))]) for word, share in RANKS.items()}
    return {word: Image(int(rows["example"][place]), int(rows["image"][place])) for word, place in places.items()}


def lines_of_image(one: Segment, image: Image) -> Lines | None:
    """The curves of one image; None where this network has not seen it, or another image under its index."""
    row = one.answer.rows.filter(pl.col("example") == image.example, pl.col("image") == image.number)
    return None if row.is_empty() else lines(row, around=one.settings["around"])


def _image_curves(one: Segment, image: Image) -> Iterator[Curve]:
    drawn = lines_of_image(one, image)
    if drawn is None:
        return
    for name, kind in KINDS.items():
        yield Curve(one.answer.place, kind, tuple(drawn.places.tolist()), tuple(getattr(drawn, name)[0].tolist()))
