"""The loss on the way to an attack's point, with its Taylor expansions, as an analysis measured it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from holdfast.analysis.segment_summary import Group, Reach, summarise_segments
from holdfast.analysis.spread import Spread, give_or_take
from holdfast.report.runs import RunData, measured
from holdfast.report.segment_figures import KINDS, Asked, charts, chosen, image
from holdfast.show.figures import Figure
from holdfast.show.numbers import count, percent, short
from holdfast.show.table import Cell, Table

CLOSE = 0.25
"""An expansion that is this share of the loss away from it at the end, or less, is not said to miss it."""


@dataclass(frozen=True)
class Segments:
    """The section on expansions.

    Args:
        words: where the expansions fail, a sentence for each network.
        figures: mean curves, how far the expansions reach, and single images.
        foreseen: how much of the rise the expansions have.
        numbers: the curves in tables.
    """

    words: Sequence[str]
    figures: Sequence[Figure]
    foreseen: Table | None
    numbers: Sequence[Table]

    name: ClassVar[str] = "segment"
    title: ClassVar[str] = "Taylor expansions towards attacks"

    @classmethod
    def of(cls, runs: Sequence[RunData], labels: Sequence[str]) -> Segments:
        """What was measured of these runs."""
        found = asked(runs)
        return cls(
            words=[verdict(one) for one in found],
            figures=charts(found, labels),
            foreseen=foreseen_table(found),
            numbers=[reach_table(found), image_table(found), *(curve_table(one) for one in found)] if found else [],
        )

    @property
    def there(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.words)


def asked(runs: Sequence[RunData]) -> list[Asked]:
    """What was measured, under names that differ."""
    found = []
    for place, who, one in measured(runs, "segment"):
        settings = one.question.settings
        found.append(Asked(place, who, settings, one.rows, summarise_segments(one.rows, around=settings["around"])))
    names = [one.who for one in found]  # a network that was asked in several ways is told by them
    return [one if names.count(one.who) == 1 else replace(one, who=f"{one.who}, {one.details}") for one in found]


def verdict(one: Asked) -> str:
    """Where the expansions of one network fail, in words."""
    found, last = one.found, one.found.curve[-1]
    first, second = (_promise(mean.mean, last.loss.mean) for mean in (last.first, last.second))
    who = one.who if one.way in one.who else f"{one.who}, {one.way}"
    return (
        f"{who}: the loss goes from {short(found.curve[0].loss.mean)} to {short(last.loss.mean)} on average. The first "
        f"order stays within {one.tolerance} of it {_far(found.first)}; the second {_far(found.second)}. At the end "
        f"the first order has {short(last.first.mean)}, {first}, and the second {short(last.second.mean)}, {second}."
    )


def _far(reach: Reach) -> str:
    half = "all the way" if reach.median > 1 - 1e-9 else f"up to {percent(reach.median)} of the way"
    return f"{half} for half of the images, and to the end for {percent(reach.to_the_end)}"


def _promise(value: float, loss: float) -> str:
    if abs(value - loss) <= CLOSE * abs(loss):
        return "which is about right"
    return "which is far too little" if value < loss else "which is far too much"


def foreseen_table(found: Sequence[Asked]) -> Table | None:
    """How much of the rise of the loss the expansions have at the end; None where nobody asked."""
    rows = [(f"{one.who}, {group.name}", _group(group)) for one in found for group in one.found.groups]
    columns = ("Images", "Rise of the loss, 95 %", "First order has of it", "Second order has of it")
    caption = "How much of the rise of the loss the expansions see coming, by how sure the network is of the image"
    return Table(caption, "Run", columns, rows) if rows else None


def _group(group: Group) -> list[Cell]:
    rise = Cell("") if group.rise is None else _mean(group.rise)
    shares = [Cell("" if share is None else percent(share)) for share in (group.first, group.second)]
    return [Cell(count(group.examples)), rise, *shares]


def reach_table(found: Sequence[Asked]) -> Table:
    """How far the expansions are right."""
    rows = []
    for one in found:
        for name, reach in (("first", one.found.first), ("second", one.found.second)):
            quarters = [Cell(percent(value)) for value in (reach.lower, reach.median, reach.upper)]
            rows.append((f"{one.who}, {KINDS[name]}", [*quarters, Cell(percent(reach.to_the_end)), _mean(reach.end)]))
    columns = ("A quarter", "Half", "Three quarters", "To the end", "Error at the end, 95 %")
    caption = "How far the expansions stay within the tolerance: a share of the images gets at most so far on its way"
    return Table(caption, "Run", columns, rows)


def image_table(found: Sequence[Asked]) -> Table:
    """The images that are drawn alone, at the ends of their segments."""
    rows = []
    for example in chosen(found[0]).values():
        for one in found:
            if (drawn := image(one, example, found[0])) is not None:
                ends = (drawn.loss[0, 0], drawn.loss[0, -1], drawn.first[0, -1], drawn.second[0, -1])
                rows.append((f"{one.who}, image {example}", [Cell(short(float(value))) for value in ends]))
    columns = ("Loss at the image", "Loss at the end", "First order there", "Second order there")
    return Table("Single images at both ends of their segments", "Run", columns, rows)


def curve_table(one: Asked) -> Table:
    """The curves of one network in numbers."""
    rows = []
    for at in one.found.curve:
        means = [_mean(getattr(at, name)) for name in (*KINDS, "first_error", "second_error")]
        rows.append((percent(at.place), [*means, Cell(percent(at.first_within)), Cell(percent(at.second_within))]))
    columns = (
        "Loss", "First order", "Second order", "Error of the first", "Error of the second", "First within",
        "Second within",
    )  # fmt: skip
    found = one.found
    caption = (
        f"Loss and expansions of {one.who}: means of {count(found.examples)} images with their 95 % intervals "
        f"({percent(found.right)} right at the images, {percent(found.held)} at the other ends)"
    )
    return Table(caption, "Way", columns, rows)


def _mean(found: Spread) -> Cell:
    return Cell(short(found.mean), give_or_take(found.half, short))
