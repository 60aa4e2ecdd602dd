"""Smoothed robustness in maps and curves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.fields import ordered
from holdfast.questions.presenting import Rate, answered, mean, rate_curve
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Details, Item
from holdfast.show.names import NORMS
from holdfast.show.numbers import short
from holdfast.show.table import Cell, Table, coloured

EXPLANATION = (
    "An image is smoothed robust where the network is right on average over the noise, at the worst point of the "
    "region that a search finds. A region of size 0 gives the average case, noise of 0 the worst case. A search may "
    "miss the worst point, so the true shares may be lower."
)


def presentation(answers: Answers) -> Iterator[Item]:
    """Share of smoothed robust images over region and noise, as curves and as a map of each answer."""
    some = answered(answers)
    if not some:
        return
    yield EXPLANATION
    for norm, loss in dict.fromkeys(_kind(answer) for _, answer in some):
        curves = [curve for _, answer in some if _kind(answer) == (norm, loss) for curve in _curves(answer)]
        yield Chart(f"Smoothed robust images, {loss} loss", f"size of the region ({norm})", tuple(curves), True)
    for name, answer in some:
        yield _map(answer, "safe", _rate, f"Smoothed robust: {name}, {_kind(answer)[1]} loss")
    maps = [_map(answer, "value", _mean, f"Mean of the worst-case average loss: {name}") for name, answer in some]
    yield Details("Means of the worst-case average loss", maps)


def _kind(answer: Answer) -> tuple[str, str]:
    """Norm and loss in words."""
    return NORMS[answer.settings["norm"]], answer.settings["loss"].replace("_", "-")


def _curves(answer: Answer) -> Iterator[Curve]:
    """The share against the size of the region, for each deviation of the noise."""
    safe = np.array(answer.rows["safe"].to_list())
    for column, sigma in enumerate(ordered(answer.settings["sigma"])):
        rates = [Rate.of(safe[:, row, column]) for row in range(safe.shape[1])]
        yield rate_curve(f"noise of {short(sigma)}", rates, ordered(answer.settings["eps"]), answer.place)


def _rate(values: NDArray[Any]) -> Cell:
    return Rate.of(values).cell


def _mean(values: NDArray[Any]) -> Cell:
    return mean(values.tolist())


def _map(answer: Answer, column: str, cell: Callable[[NDArray[Any]], Cell], caption: str) -> Table:
    """A column summed up for each size of the region and each deviation of the noise."""
    values = np.array(answer.rows[column].to_list())
    rows = [
        (short(size), [cell(values[:, row, place]) for place in range(values.shape[2])])
        for row, size in enumerate(ordered(answer.settings["eps"]))
    ]
    columns = [f"noise of {short(sigma)}" for sigma in ordered(answer.settings["sigma"])]
    return Table(caption, f"Region ({_kind(answer)[0]})", columns, coloured(rows))
