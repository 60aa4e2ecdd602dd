"""Pieces that presentations of several questions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from holdfast.questions.answers import Answer, Answers
from holdfast.show.chart import Chart, Curve
from holdfast.show.numbers import count, give_or_take, interval, percent, short
from holdfast.show.table import Cell, Table
from holdfast.statistics import Spread, spread, wilson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from holdfast.questions.question import Question
    from holdfast.show.items import Item

QUARTILES = (0.25, 0.5, 0.75)
POINTS = 61
"""Positions of a curve of shares."""

Write = Callable[[float], str]
Named = Sequence[tuple[str, Answer]]
"""Answers with their names."""


def presented(question: Question | type[Question], answers: Answers) -> list[Item]:
    """What a question makes of answers, below the number of images that they rest on.

    A question that takes fewer images than it is asked about has a function `rests_on` of an answer, which says how
    many.
    """
    items = list(question.present(answers))
    rests_on = getattr(question, "rests_on", lambda answer: answer.examples)
    sizes = sorted({rests_on(answer) for answer in answers} - {0})
    if not (items and sizes):
        return items
    *others, last = map(count, sizes)
    images = " and ".join(filter(None, (", ".join(others), last)))
    return [f"Measured on {images} image{'' if sizes == [1] else 's'}.", *items]


def number(value: float | None, write: Write = short) -> Cell:
    """A number; an empty cell where there is none."""
    return Cell("") if value is None else Cell(write(value), value=value)


def share(value: float | None) -> Cell:
    """A share in percent."""
    return number(value, percent)


def proportion(values: Sequence[float]) -> Cell:
    """The share of values that are true, with its 95 % Wilson interval."""
    of = wilson(sum(map(bool, values)), len(values))
    value = sum(map(bool, values)) / len(values)
    return Cell(percent(value), interval(of.low, of.high), value=value)


def mean(values: Sequence[float], write: Write = short) -> Cell:
    """The mean of some values with half of its 95 % interval."""
    return spread_cell(spread(values), write)


def spread_cell(of: Spread | None, write: Write = short) -> Cell:
    """A mean with half of its 95 % interval; an empty cell where there is none."""
    return Cell("") if of is None else Cell(write(of.mean), give_or_take(of.half, write), value=of.mean)


def products_in_words(settings: Mapping[str, Any], step: float) -> str:
    """How products with a Hessian were made: settings of a question with the fields draws and exact, and the step."""
    return f"{settings['draws']} {'exact products' if settings['exact'] else f'differences at {short(step)}'}"


@dataclass(frozen=True)
class Rate:
    """Share of right answers.

    Args:
        value: the share.
        low: lower end of its 95 % Wilson interval.
        high: upper end.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, right: pl.Series | NDArray[np.bool_]) -> Rate:
        """The share of examples that are right."""
        bounds = wilson(int(right.sum()), len(right))
        return cls(int(right.sum()) / len(right), bounds.low, bounds.high)

    @property
    def cell(self) -> Cell:
        """The share with its interval."""
        return Cell(percent(self.value), interval(self.low, self.high), value=self.value)


def rate_curve(kind: str, rates: Sequence[Rate], x: Sequence[float] | None = None, run: int = 0) -> Curve:
    """Shares with their intervals at growing positions: 0, 1, 2, ... if none are stated."""
    y, low, high = (tuple(getattr(rate, end) for rate in rates) for end in ("value", "low", "high"))
    return Curve(run, kind, tuple(map(float, range(len(rates)) if x is None else x)), y, low, high)


def answered(answers: Answers) -> list[tuple[str, Answer]]:
    """Names and answers of those that hold any rows or records."""
    return [(name, answer) for name, answer in zip(answers.names(), answers, strict=True) if answer.examples]


def of_each_kind(answers: Answers) -> list[tuple[str, Answer]]:
    """What the curves of answers are called, and the answers, of those that hold any rows or records."""
    return [(kind, answer) for kind, answer in zip(answers.kinds(), answers, strict=True) if answer.examples]


def quartile_table(answers: Answers, column: str, title: str) -> Table:
    """Mean and quartiles of a column, a row for each answer."""
    rows = []
    for name, answer in answered(answers):
        values = answer.rows[column]
        quarters = [number(values.quantile(at, "linear")) for at in QUARTILES]
        rows.append((name, [Cell(count(len(values)), value=len(values)), mean(values.to_list()), *quarters]))
    return Table(title, "Run", ("Images", "Mean, 95 %", "Lower quartile", "Median", "Upper quartile"), rows)


def share_chart(answers: Answers, column: str, title: str, axis: str) -> Chart:
    """For each answer, the share of images whose value is at most that of the position, on a logarithmic scale.

    Values of 0 lie left of all positions.
    """
    curves = []
    for kind, answer in of_each_kind(answers):
        values = answer.rows[column].sort()
        steps = pl.Series([number / (POINTS - 1) for number in range(POINTS)])
        spots = [(values.quantile(at, "linear") or 0.0, at) for at in steps]
        x, y = zip(*[spot for spot in spots if spot[0] > 0] or [(1.0, 1.0)], strict=True)
        curves.append(Curve(answer.place, kind, x, y))
    return Chart(title, axis, tuple(curves), True, log_x=True)
