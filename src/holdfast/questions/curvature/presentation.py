"""Curvature in tables, charts and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.curvature.summary import (
    SHARES,
    Correlation,
    Group,
    Kept,
    Numbers,
    accuracy_of_lowest,
    box,
    curvature_by_right_answers,
    median_ratio,
    pearson,
)
from holdfast.questions.presenting import answered, mean, number, products_in_words, share
from holdfast.show.chart import Box, Chart, Curve
from holdfast.show.items import Details, Item
from holdfast.show.numbers import count, decimal, give_or_take, interval, percent, several, short
from holdfast.show.table import Cell, Table, across

Named = Sequence[tuple[str, Answer]]
SMALLEST = 1e-12
"""Smaller values are drawn here: logarithms have no zero, and float32 has not much below."""
NOISES = {"gaussian": "Gaussian", "uniform": "uniform"}
EXPLANATION = (
    "Curvature is the sum of the squared eigenvalues of the loss’s Hessian in the image, estimated from random "
    "directions: how fast the gradient turns around an image. Values of single images have the error in the table; "
    "they span many orders of magnitude, so a mean rests on few images; compare medians."
)
CORRELATIONS = (
    "The correlation of groups is that of the number of right copies with the mean curvature of its group, as in the "
    "paper; that of images treats every image separately and is usually weaker."
)


def presentation(answers: Answers) -> Iterator[Item]:
    """Each network in one row; distributions and right answers under noise for every way of measuring curvature."""
    some = answered(answers)
    if not some:
        return
    yield EXPLANATION
    ways = list(dict.fromkeys(_way(answer) for _, answer in some))
    noises = dict.fromkeys(f"{answer.settings['copies']} copies with {_noise(answer)}" for _, answer in some)
    yield f"Curvature is measured with {' and '.join(ways)}; right answers are counted over {' and '.join(noises)}."
    yield _summary(some)
    for way in ways:
        alike, note = [one for one in some if _way(one[1]) == way], f", {way}" if len(ways) > 1 else ""
        yield Chart(
            f"Curvature of the lowest 90 % of the images{note}", "", (), False, log_y=True,
            boxes=tuple(_box(name, answer) for name, answer in alike),
        )  # fmt: skip
        yield Chart(
            f"Right under noise{note}", "images kept, lowest curvature first", tuple(_lowest(one) for _, one in alike),
            True, whole=False, from_zero=False, x_share=True,
        )  # fmt: skip
        yield Chart(
            f"Curvature by right answers under noise{note}", "copies that are right",
            tuple(_grouped(one) for _, one in alike), False, log_y=True,
        )  # fmt: skip
    numbers: list[Item] = [_quantiles(some), _lowest_table(some), CORRELATIONS, _group_table(some)]
    yield Details("Curvature and right answers under noise in numbers", numbers, open=True)


def _way(answer: Answer) -> str:
    """How products with the Hessian were made, and in which unit."""
    products = products_in_words(answer.settings, answer.settings["step"])
    return f"{products} in {'normalised inputs' if answer.settings['normalised'] else 'pixels'}"


def _noise(answer: Answer) -> str:
    return f"{NOISES[answer.settings['noise']]} noise of {short(answer.settings['strength'])}"


def _column(answer: Answer, name: str) -> Numbers:
    return answer.rows[name].to_numpy().astype(np.float64)


def _summary(some: Named) -> Table:
    rows = []
    for name, answer in some:
        curvature, right = _column(answer, "curvature"), _column(answer, "right")
        cells = [
            number(float(np.median(curvature))), mean(curvature.tolist()),
            share(median_ratio(_column(answer, "curvature_error"), curvature)),
            number(float(np.median(_column(answer, "gradient_norm")))), _eigenvalue(answer),
            share(float(right.mean()) / answer.settings["copies"]), number(len(right), count),
        ]  # fmt: skip
        rows.append((name, cells))
    columns = (
        "Curvature, median", "Mean, 95 %", "Error of one image", "Gradient norm, median",
        "Largest eigenvalue, median", "Right under noise", "Images",
    )  # fmt: skip
    return Table("Curvature of the loss at the images", "Run", columns, rows)


def _eigenvalue(answer: Answer) -> Cell:
    if not answer.settings["lanczos"]:
        return Cell("not measured")
    value, residual = (_column(answer, name) for name in ("eigenvalue", "residual"))
    ratio = median_ratio(residual, value)
    middle = float(np.median(value))
    return Cell(short(middle), "" if ratio is None else f"residual {percent(ratio)}", value=middle)


def _box(name: str, answer: Answer) -> Box:
    quantiles, _ = box(_column(answer, "curvature"))
    return Box(answer.place, name, *(max(value, SMALLEST) for value in quantiles))


def _quantiles(some: Named) -> Table:
    rows = []
    for name, answer in some:
        quantiles, examples = box(_column(answer, "curvature"))
        rows.append((name, [*map(number, quantiles), number(examples, count)]))
    columns = ("5 %", "25 %", "Median", "75 %", "95 %", "Images")
    caption = "Curvature of the lowest 90 % of the images: whiskers, boxes and medians of the chart"
    return Table(caption, "Run", columns, rows)


def _kept(answer: Answer) -> Sequence[Kept]:
    return accuracy_of_lowest(_column(answer, "curvature"), _column(answer, "right"), answer.settings["copies"])


def _lowest(answer: Answer) -> Curve:
    """Accuracy under noise of the images of lowest curvature: figure 8 of the paper."""
    kept = _kept(answer)
    low, high = (tuple(getattr(one.interval, end) for one in kept) for end in ("low", "high"))
    return Curve(answer.place, _noise(answer), SHARES, tuple(one.accuracy for one in kept), low, high)


def _lowest_table(some: Named) -> Table:
    def cell(one: Kept) -> Cell:
        return Cell(percent(one.accuracy), interval(one.interval.low, one.interval.high), value=one.accuracy)

    columns = [(name, {one.share: cell(one) for one in _kept(answer)}) for name, answer in some]
    return across("Noisy copies that are right, of the images of lowest curvature", "Images kept", columns, percent)


def _groups(answer: Answer) -> Sequence[Group]:
    return curvature_by_right_answers(_column(answer, "curvature"), _column(answer, "right"))


def _grouped(answer: Answer) -> Curve:
    """Mean curvature by the number of right answers under noise: figure 9 of the paper."""
    bent = [group for group in _groups(answer) if group.curvature.mean > 0]
    x, y = tuple(float(group.right) for group in bent), tuple(group.curvature.mean for group in bent)
    return Curve(answer.place, f"{_noise(answer)}, {answer.settings['copies']} copies", x, y)


def _group_table(some: Named) -> Table:
    def cell(group: Group) -> Cell:
        half = give_or_take(group.curvature.half, short)
        images = several(group.examples, "image")
        return Cell(short(group.curvature.mean), ", ".join(filter(None, (half, images))), value=group.curvature.mean)

    columns = [(name, {group.right: cell(group) for group in _groups(answer)}) for name, answer in some]
    table = across("Mean curvature with its 95 % interval, by copies that are right", "Right copies", columns, count)
    correlations = [
        ("Correlation, groups", [_correlation(_of_means(answer)) for _, answer in some]),
        ("Correlation, images", [_correlation(_of_images(answer)) for _, answer in some]),
    ]
    return replace(table, rows=[*table.rows, *correlations], totals=len(correlations))


def _of_images(answer: Answer) -> Correlation:
    return pearson(_column(answer, "right"), _column(answer, "curvature"))


def _of_means(answer: Answer) -> Correlation:
    groups = _groups(answer)
    return pearson([group.right for group in groups], [group.curvature.mean for group in groups])


def _correlation(of: Correlation) -> Cell:
    if of.value is None:
        return Cell("unknown", f"nothing varies over {of.points}")
    ends = "" if of.interval is None else f"[{decimal(of.interval.low, 2)}, {decimal(of.interval.high, 2)}], "
    return Cell(decimal(of.value, 2), f"{ends}over {of.points}", value=of.value)
