"""Fourier heat maps beside their first order, and how well the one predicts the other; without torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.fourier_map import RADIUS, THIRDS, by_radius, fourier_map, in_thirds, independent, signed
from holdfast.questions.gradient_spectrum import first_order_map
from holdfast.questions.presenting import answered, number, of_each_kind, share
from holdfast.resampling import rank_correlation
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Item
from holdfast.show.numbers import count, decimal, percent, short
from holdfast.show.table import Cell, Table

EXPLANATION = (
    "The share of wrong answers when a wave of one frequency is added to the images, for every frequency, the lowest "
    "in the middle. All waves have the same length, so that a high value means that the network is misled by this "
    "frequency more than by others."
)
FIRST_ORDER = (
    "The first-order map has the mean magnitude of the gradient's projection on the same waves, all frequencies from "
    "one backward pass for each image. Its rank correlation with the errors says how well it predicts their order; "
    "that of the errors on one half of the images with those on the other half says how well the order is known at all."
)


def _correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    value = rank_correlation(first, second)
    return None if math.isnan(value) else value


@dataclass(frozen=True)
class Shown:
    """A heat map with its first order.

    Args:
        name: of the network.
        kind: what its curves are called.
        answer: to the question.
    """

    name: str
    kind: str
    answer: Answer

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the images."""
        height, width = self.answer.records[0]["size"]
        return height, width

    @property
    def errors(self) -> list[float]:
        """Of the independent frequencies, as far as they were measured."""
        return [value for record in self.answer.records[1:] for value in record["errors"]]

    @property
    def first_order(self) -> list[float]:
        """The first-order map, of all independent frequencies."""
        return list(self.answer.records[0]["first_order"])

    @property
    def complete(self) -> bool:
        """Whether all frequencies were measured."""
        return len(self.errors) == len(self.first_order)

    @property
    def correlation(self) -> float | None:
        """Of the ranks of both maps; None where one is constant."""
        return _correlation(self.first_order[: len(self.errors)], self.errors)

    @property
    def agreement(self) -> float | None:
        """Of the ranks of the errors on the two halves of the images; None where one is constant or empty."""
        first, second = ([value for record in self.answer.records[1:] for value in record["halves"][n]] for n in (0, 1))
        return None if None in second else _correlation(first, second)


def presentation(answers: Answers) -> Iterator[Item]:
    """Curves over the radius, numbers, and both maps of every network, errors on one scale."""
    kinds = of_each_kind(answers)
    some = [Shown(name, kind, one) for (name, one), (kind, _) in zip(answered(answers), kinds, strict=True)]
    if measured := [one for one in some if one.errors]:
        yield EXPLANATION
        yield FIRST_ORDER
        yield _chart(measured)
        yield _errors_table(measured)
        yield _first_order_table(measured)
    errors = [value for one in measured for value in one.errors]
    for one in some:
        if one.errors:
            title = f"{one.name}: errors under waves of length {short(one.answer.settings['length'])}"
            ends = min(errors), max(errors)
            yield fourier_map(title, one.errors, one.size, hover="%{z:.1%} wrong", ends=ends)
        yield first_order_map(f"{one.name}: first order", one.first_order, one.size)


def _chart(some: Sequence[Shown]) -> Chart:
    curves = [Curve(one.answer.place, one.kind, *by_radius(one.errors, one.size)) for one in some]
    return Chart("Wrong answers by frequency", RADIUS, tuple(curves), True)


def _errors_table(some: Sequence[Shown]) -> Table:
    rows = []
    for one in some:
        clean = one.answer.records[0]["clean"]
        worst = max(range(len(one.errors)), key=one.errors.__getitem__)
        i, j = signed(independent(*one.size)[worst], *one.size)
        thirds = in_thirds(one.errors if one.complete else (), one.size)
        highest = Cell(percent(one.errors[worst]), f"at ({i}, {j})", value=one.errors[worst])
        rows.append((one.name, [share(clean), *map(share, thirds), highest]))
    caption = "Wrong answers under waves, means by thirds of the frequencies"
    return Table(caption, "Run", ("Without a wave", *THIRDS, "Highest"), rows)


def _first_order_table(some: Sequence[Shown]) -> Table:
    """How well the first order predicts the errors, and at what part of the cost."""
    rows = []
    for one in some:
        images, forward = one.answer.examples, one.answer.examples * len(one.errors)
        cells = [number(value, lambda value: decimal(value, 2)) for value in (one.correlation, one.agreement)]
        passes = [Cell(count(value), value=value) for value in (forward, images)]
        rows.append((one.name, [*cells, *passes, Cell(f"{count(forward / images)} times", value=forward / images)]))
    correlations = ("Rank correlation", "That of halves of the images")
    columns = (*correlations, "Forward passes, measured", "Backward passes, first order", "Ratio")
    return Table("First-order map against measured errors, over the independent frequencies", "Run", columns, rows)
