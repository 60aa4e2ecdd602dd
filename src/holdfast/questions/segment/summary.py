"""Losses along many segments in few numbers: where the expansions fail, and of which images; without torch.

Reference:
    Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, section 3.3.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from holdfast.statistics import Spread, spread

Numbers = NDArray[np.float64]

SURE = 0.99
"""From this probability of the true class on, a network is called sure of an image."""


@dataclass(frozen=True)
class Lines:
    """Loss and expansions of each image, (N, P) each.

    Args:
        places: from 0 at the image to 1 at the attack's point, (P,).
        loss: the loss.
        first: its expansion of first order.
        second: of second order.
    """

    places: Numbers
    loss: Numbers
    first: Numbers
    second: Numbers


def lines(rows: pl.DataFrame, *, around: float) -> Lines:
    """The curves that stored rows stand for.

    Args:
        rows: with the columns loss (a list over equally spaced places), start (the first order at 0), slope and bend.
        around: where the expansions are made.
    """
    loss = np.asarray(rows["loss"].to_list(), dtype=np.float64)
    places = np.linspace(0, 1, loss.shape[1])
    start, slope, bend = (rows[name].to_numpy()[:, None] for name in ("start", "slope", "bend"))
    first = start + slope * places
    return Lines(places, loss, first, first + 0.5 * bend * (places - around) ** 2)


@dataclass(frozen=True)
class AtPlace:
    """All images at one place of their segments.

    Args:
        place: from 0 to 1.
        loss: mean loss.
        first: mean of the first order.
        second: mean of the second order.
        first_error: mean absolute error of the first order.
        second_error: of the second order.
        first_within: share of the images whose first order has been within the tolerance up to here.
        second_within: of the second order.
    """

    place: float
    loss: Spread
    first: Spread
    second: Spread
    first_error: Spread
    second_error: Spread
    first_within: float
    second_within: float


@dataclass(frozen=True)
class Reach:
    """How far along the segment one expansion stays within the tolerance.

    Args:
        lower: a quarter of the images reach at most this far.
        median: half of them.
        upper: three quarters.
        to_the_end: share of the images whose expansion is within the tolerance all the way.
        end: mean error at the end, negative where the expansion promises too little.
    """

    lower: float
    median: float
    upper: float
    to_the_end: float
    end: Spread


@dataclass(frozen=True)
class Group:
    """How much of the rise of the loss the expansions see coming.

    Args:
        name: which images.
        examples: how many.
        rise: mean loss at the end over that at the image; None without images.
        first: share of it that the first order has at the end; None where there is no rise.
        second: that the second order has.
    """

    name: str
    examples: int
    rise: Spread | None
    first: float | None
    second: float | None


@dataclass(frozen=True)
class SegmentSummary:
    """The segments of one network in few numbers.

    Args:
        rows: as the question `segment` stores them.
        around: where the expansions are made.
    """

    rows: pl.DataFrame
    around: float

    @cached_property
    def lines(self) -> Lines:
        """The curves of all images."""
        return lines(self.rows, around=self.around)

    @cached_property
    def curve(self) -> list[AtPlace]:
        """Means and shares at every place."""
        return [_at(self.lines, self.rows, number) for number in range(len(self.lines.places))]

    @cached_property
    def reaches(self) -> tuple[Reach, Reach]:
        """Of the first and the second order."""
        return _reach(self.rows, "first"), _reach(self.rows, "second")

    @cached_property
    def groups(self) -> list[Group]:
        """All images, those that the network is sure of, and the others."""
        sure = np.exp(-self.lines.loss[:, 0]) >= SURE  # the loss is the cross entropy
        kinds = {"all images": np.ones_like(sure), f"sure by {100 * SURE:g} % or more": sure, "the others": ~sure}
        return [_group(name, self.lines, chosen) for name, chosen in kinds.items()]

    def share(self, column: str) -> float:
        """The share of images for which a column is true."""
        return float(self.rows[column].to_numpy().mean())


def _at(drawn: Lines, rows: pl.DataFrame, number: int) -> AtPlace:
    place = float(drawn.places[number])
    loss, first, second = (values[:, number] for values in (drawn.loss, drawn.first, drawn.second))
    # a place that a reach names was computed elsewhere, and may differ in the last digit
    within = {name: float(np.mean(rows[f"{name}_reach"].to_numpy() > place - 1e-9)) for name in ("first", "second")}
    return AtPlace(
        place=place,
        loss=_spread(loss),
        first=_spread(first),
        second=_spread(second),
        first_error=_spread(abs(first - loss)),
        second_error=_spread(abs(second - loss)),
        first_within=within["first"],
        second_within=within["second"],
    )


def _reach(rows: pl.DataFrame, name: str) -> Reach:
    far = rows[f"{name}_reach"].to_numpy()
    lower, median, upper = (float(value) for value in np.quantile(far, (0.25, 0.5, 0.75)))
    return Reach(lower, median, upper, float(np.mean(far > 1 - 1e-9)), _spread(rows[f"{name}_end"].to_numpy()))


def _group(name: str, drawn: Lines, chosen: NDArray[np.bool_]) -> Group:
    if not chosen.any():
        return Group(name, 0, None, None, None)
    here = drawn.loss[chosen, 0]
    rise = _spread(drawn.loss[chosen, -1] - here)
    ends = [float(np.mean(values[chosen, -1] - here)) for values in (drawn.first, drawn.second)]
    first, second = (end / rise.mean if rise.mean > 0 else None for end in ends)
    return Group(name, int(chosen.sum()), rise, first, second)


def _spread(values: Numbers) -> Spread:
    return spread(values.tolist())
