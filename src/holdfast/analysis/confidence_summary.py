"""Confidence around many images in few numbers; without torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from holdfast.analysis.spread import Spread, spread
from holdfast.statistics import Interval, wilson

KINDS = {"clean": "clean images", "random": "random points", "pgd1": "one step of PGD"}
"""Kinds of points, by the names of their columns."""


@dataclass(frozen=True)
class AtPoints:
    """One cell of table 3.1, with what tells sure from right.

    Args:
        points: a key of `KINDS`.
        eps: how far the points may be from their images; 0 for the images.
        likeliest: mean probability of the likeliest class.
        true: mean probability of the true class.
        accuracy: share of right answers.
        interval: its Wilson interval.
        examples: how many images.
    """

    points: str
    eps: float
    likeliest: Spread
    true: Spread
    accuracy: float
    interval: Interval
    examples: int


def summarise_confidences(rows: pl.DataFrame, *, radii: Sequence[float]) -> list[AtPoints]:
    """Means over the images: clean, then random points and one step of PGD by growing radius.

    Args:
        rows: as `holdfast analyse confidences` stores them: for each kind of points the columns likeliest, true and
            right, lists over the radii except for clean images.
        radii: in the order of the lists.
    """
    return list(_cells(rows, radii))


def _cells(rows: pl.DataFrame, radii: Sequence[float]) -> Iterator[AtPoints]:
    columns = ("likeliest", "true", "right")
    yield _cell("clean", 0.0, *(rows[f"clean_{name}"] for name in columns))
    for kind in ("random", "pgd1"):
        for place in sorted(range(len(radii)), key=lambda number: radii[number]):
            yield _cell(kind, radii[place], *(rows[f"{kind}_{name}"].list.get(place) for name in columns))


def _cell(points: str, eps: float, likeliest: pl.Series, true: pl.Series, right: pl.Series) -> AtPoints:
    correct, examples = int(right.sum()), len(right)
    return AtPoints(
        points=points,
        eps=eps,
        likeliest=spread(likeliest.to_list()),
        true=spread(true.to_list()),
        accuracy=correct / examples,
        interval=wilson(correct, examples),
        examples=examples,
    )
