"""Galleries: images before and after a check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from holdfast.questions.question import Needs
from holdfast.report.gallery import LIMIT, Gallery, change, png
from holdfast.report.runs import RunData
from holdfast.results.summaries import not_attacked, unsettled
from holdfast.show.items import Details, Item, Note
from holdfast.show.numbers import decimal
from holdfast.show.pictures import Photo, Photos

EXAMPLES = 480  # in all galleries of a page together
HELD, SO_FAR, FOOLED, WRONG_BEFORE = "held", "held so far", "fooled", "wrong already before"
NOT_ATTACKED = "not attacked"


@dataclass(frozen=True, kw_only=True)
class Galleries:
    """Images before and after each check."""

    title: ClassVar = "Gallery"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """All galleries; the more there are, the fewer examples each shows."""
        galleries = [(run, shown) for run in runs for shown in _in_order(run)]
        limit = max(1, min(LIMIT, EXAMPLES // max(1, len(galleries))))
        for number, (run, shown) in enumerate(galleries):
            photos = _photos(run, shown, limit)
            summary = f"{run.label}, {shown.weights} weights: {shown.check}"
            yield Details(summary, [_explained(shown, len(photos)), Photos(photos)], open=number == 0)
        if without := [run.label for run in runs if not run.galleries]:
            yield Note(f"No images were kept of {', '.join(without)}.", "missing")


def _explained(shown: Gallery, count: int) -> Note:
    size = len(shown.x)
    part = f" {count} of {size} examples are shown." if 0 < count < size else ""
    text = f"Original, changed image, and the change magnified × {shown.factor:g} around middle grey.{part}"
    return Note(text if count else f"{text} This gallery is empty.")


def main_galleries(run: RunData) -> list[Gallery]:
    """Galleries of the main weights, in the order of the checks."""
    return [shown for shown in _in_order(run) if shown.weights == run.weights[0]]


def _in_order(run: RunData) -> list[Gallery]:
    """Galleries of the main weights first, then as the tables order checks."""
    order = [check.name for check in run.main_checks]
    places = {name: place for place, name in enumerate(order)}
    return sorted(
        run.galleries, key=lambda g: (g.weights != run.weights[0], places.get(g.check, len(order)), g.check, g.weights)
    )


def _photos(run: RunData, shown: Gallery, limit: int) -> list[Photo]:
    here = (pl.col("weights") == shown.weights) & (pl.col("check") == shown.check)
    open_ = run.rows.filter(here & unsettled()).select("example", not_attacked())
    states = {example: NOT_ATTACKED if missed else SO_FAR for example, missed in open_.iter_rows()}
    return [_photo(run, shown, index, states) for index in range(min(len(shown.x), limit))]


def _photo(run: RunData, shown: Gallery, index: int, states: Mapping[int, str]) -> Photo:
    """Original, changed image and magnified change of one example."""
    example = int(shown.example[index])
    label, before, after = (int(values[index]) for values in (shown.label, shown.before, shown.after))
    held = FOOLED if after != label else states.get(example, HELD)
    names = [run.class_name(number) for number in (label, before, after)]
    return Photo(
        images=(
            (png(shown.x[index]), f"Example {example}, original, class {names[0]}"),
            (png(shown.z[index]), f"Example {example}, changed, predicted {names[2]}"),
            (png(change(shown, index)), f"Example {example}, change magnified"),
        ),
        caption=f"{names[0]}: {names[1]} → {names[2]}",
        mark=held if before == label else WRONG_BEFORE,
        note=f"example {example}, distance {decimal(float(shown.distance[index]), 3)} in {shown.norm}",
    )
