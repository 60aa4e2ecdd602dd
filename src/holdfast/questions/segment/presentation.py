"""Expansions in sentences and tables, with the charts among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.questions.answers import Answers
from holdfast.questions.presenting import answered, number, share, spread_cell
from holdfast.questions.segment.charts import KINDS, Segment, charts, chosen_images, lines_of_image
from holdfast.questions.segment.summary import Group, Reach
from holdfast.show.items import Details, Item
from holdfast.show.numbers import count, percent, short
from holdfast.show.table import Cell, Table

CLOSE = 0.25
"""An expansion that is this share of the loss away from it at the end, or less, counts as about right."""
EXPLANATION = (
    "The loss on the straight way from each image to the point that an attack finds for it, with its expansions of "
    "first and second order. Regularisers such as FOAR and SOAR lower the expansion instead of the loss. A network "
    "that is sure of an image is flat there, and an expansion made there misses what comes."
)
IMAGES = (
    "Single images are those where the error of the second order at the end is at its quantiles of 10, 50 and 90 %, in "
    "the first run."
)


def presentation(answers: Answers) -> Iterator[Item]:
    """Verdicts, how much of the rise is foreseen, charts, and their numbers."""
    some = [Segment(name, answer) for name, answer in answered(answers)]
    if not some:
        return
    yield EXPLANATION
    for one in some:
        yield _verdict(one)
    yield _foreseen_table(some)
    yield from charts(some)
    yield _reach_table(some)
    yield Details("Losses and expansions at every point", [*map(_curve_table, some)], open=True)
    yield Details("Single images in numbers", [IMAGES, _image_table(some)])


def _verdict(one: Segment) -> str:
    """Where the expansions of one network fail."""
    start, end = one.summary.curve[0], one.summary.curve[-1]
    first_reach, second_reach = one.summary.reaches
    first, second = (_promise(mean.mean, end.loss.mean) for mean in (end.first, end.second))
    return (
        f"{one.name}, {one.way}: the loss goes from {short(start.loss.mean)} to {short(end.loss.mean)} on average. The "
        f"first order stays within {one.tolerance} of it {_far(first_reach)}; the second "
        f"{_far(second_reach)}. At the end the first order has {short(end.first.mean)}, {first}, and the second "
        f"{short(end.second.mean)}, {second}."
    )


def _far(reach: Reach) -> str:
    half = "all the way" if reach.median > 1 - 1e-9 else f"up to {percent(reach.median)} of the way"
    return f"{half} for half of the images, and to the end for {percent(reach.to_the_end)}"


def _promise(value: float, loss: float) -> str:
    if abs(value - loss) <= CLOSE * abs(loss):
        return "which is about right"
    return "which is far too little" if value < loss else "which is far too much"


def _foreseen_table(some: Sequence[Segment]) -> Table:
    """How much of the rise of the loss the expansions have at the end."""
    rows = [(f"{one.name}, {group.name}", _group(group)) for one in some for group in one.summary.groups]
    columns = ("Images", "Rise of the loss, 95 %", "First order has of it", "Second order has of it")
    caption = "How much of the rise of the loss the expansions see coming, by how sure the network is of the image"
    return Table(caption, "Run", columns, rows)


def _group(group: Group) -> list[Cell]:
    rise = spread_cell(group.rise)
    return [number(group.examples, count), rise, share(group.first), share(group.second)]


def _reach_table(some: Sequence[Segment]) -> Table:
    """How far the expansions are right."""
    rows = []
    for one in some:
        for kind, reach in zip((KINDS["first"], KINDS["second"]), one.summary.reaches, strict=True):
            shares = [share(value) for value in (reach.lower, reach.median, reach.upper, reach.to_the_end)]
            rows.append((f"{one.name}, {kind}", [*shares, spread_cell(reach.end)]))
    columns = ("A quarter", "Half", "Three quarters", "To the end", "Error at the end, 95 %")
    caption = "How far the expansions stay within the tolerance: a share of the images gets at most so far on its way"
    return Table(caption, "Run", columns, rows)


def _image_table(some: Sequence[Segment]) -> Table:
    """The images that are drawn alone, at the ends of their segments."""
    rows = []
    for image in chosen_images(some[0]).values():
        for one in some:
            if (drawn := lines_of_image(one, image)) is not None:
                ends = (drawn.loss[0, 0], drawn.loss[0, -1], drawn.first[0, -1], drawn.second[0, -1])
                rows.append((f"{one.name}, image {image.example}", [number(float(value)) for value in ends]))
    columns = ("Loss at the image", "Loss at the end", "First order there", "Second order there")
    return Table("Single images at both ends of their segments", "Run", columns, rows)


def _curve_table(one: Segment) -> Table:
    """The curves of one network in numbers."""
    rows = []
    for at in one.summary.curve:
        means = [spread_cell(getattr(at, name)) for name in (*KINDS, "first_error", "second_error")]
        rows.append((percent(at.place), [*means, share(at.first_within), share(at.second_within)]))
    columns = (
        "Loss", "First order", "Second order", "Error of the first", "Error of the second",
        f"First within {one.tolerance}", f"Second within {one.tolerance}",
    )  # fmt: skip
    right, right_at_end = (percent(one.summary.share(name)) for name in ("right", "right_at_end"))
    caption = (
        f"Loss and expansions of {one.name}: means of {count(len(one.answer.rows))} images with their 95 % intervals "
        f"({right} correct at the images, {right_at_end} at the other ends)"
    )
    return Table(caption, "Way", columns, rows)
