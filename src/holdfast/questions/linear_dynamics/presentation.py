"""Figures 4.7 to 4.9 and tables 4.8 and 4.9 from stored numbers; without torch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.linear_dynamics import DOMAINS, OPTIMISERS
from holdfast.questions.presenting import number, proportion
from holdfast.questions.question import Record
from holdfast.show.chart import Chart, Curve
from holdfast.show.figures import Figure, figure
from holdfast.show.items import Details, Item
from holdfast.show.numbers import count, short
from holdfast.show.table import Cell, Table

EXPLANATION = (
    "Linear regression with weights that the data say nothing about. They cost nothing on clean inputs and count in "
    "full under attack, so that the best they can be is 0. Gradient descent leaves them as they started, whatever the "
    "coordinates; methods that rescale each coordinate move them, unless the coordinates are the frequencies."
)
BOUND = 3 * math.sqrt(6)
"""Learning rates within which the irrelevant weight is from the prediction, see `holdfast.theory.linear_dynamics`."""

LEAST = 1e-8
"""Of risks that are drawn: what is smaller is none, and would take the room of what is larger."""

Parts = Mapping[tuple[str, ...], Record]
"""Records by what they are about."""


def presentation(answers: Answers) -> Iterator[Item]:
    """Of each problem ends and paths, and signGD against predictions; then what is known of all problems."""
    some = [(name, answer, _parts(answer)) for name, answer in zip(answers.names(), answers, strict=True)]
    if not any(parts for _, _, parts in some):
        return
    yield EXPLANATION
    for name, answer, parts in some:
        paths = {domain: _paths(parts, domain) for domain in DOMAINS}
        yield from (end_table(name, answer, domain, of) for domain, of in paths.items() if of)
        for domain, of in paths.items():
            yield from [error_figure(name, domain, of), risk_figure(name, answer, domain, of)] if of else []
        if ("random",) in parts:
            yield from _against_predictions(name, answer, parts)
    stated = next((parts for _, _, parts in some if ("P flat",) in parts), None)
    if stated:
        yield from _statements(stated)


def _parts(answer: Answer) -> Parts:
    return {tuple(record["part"]): record for record in answer.records}


def _paths(parts: Parts, domain: str) -> dict[str, Record]:
    """The path of each optimiser in a domain, as far as they were measured."""
    return {name: parts[domain, name] for name in OPTIMISERS if (domain, name) in parts}


def end_table(name: str, answer: Answer, domain: str, paths: Mapping[str, Record]) -> Table:
    """Weights and risks where each path ends, and the adversarial risk over that of gradient descent in the limit."""
    rows = []
    for optimiser, record in paths.items():
        risk, end = record["end"]["adversarial"], [record["end"][kind] for kind in ("standard", "adversarial")]
        ratio = risk / record["limit"] if record["limit"] and risk is not None else None
        rows.append((optimiser, [number(value) for value in (*record["weights"], record["norm"], *end, ratio)]))
    weights = [f"w{place}" for place in range(len(answer.settings["variances"]))]
    columns = [*weights, "|w|²", "Standard risk", "Adversarial risk", "Over GD's limit"]
    caption = f"{name}: weights and risks after {count(answer.settings['steps'])} steps, {domain} domain"
    return Table(f"{caption}, eps {short(answer.settings['eps'])}", "Optimiser", columns, rows)


def error_figure(name: str, domain: str, paths: Mapping[str, Record]) -> Figure:
    """Figure 4.7a: length of the error of each weight over the steps, a colour for each optimiser."""
    curves = [
        _curve(run, f"|e{place}|", record["steps"], values)
        for run, record in enumerate(paths.values())
        for place, values in enumerate(zip(*record["errors"], strict=True))
    ]
    title = f"{name}: errors of the weights, {domain} domain"
    return figure(Chart(title, "step", tuple(curves), share=False, log_x=True), list(paths))


def risk_figure(name: str, answer: Answer, domain: str, paths: Mapping[str, Record]) -> Figure:
    """Figure 4.7b: risk over the steps, clean and attacked."""
    curves = [
        _curve(run, kind, record["steps"], [None if risk is None else max(risk, LEAST) for risk in record[kind]])
        for run, record in enumerate(paths.values())
        for kind in ("standard", "adversarial")
    ]
    title = f"{name}: risk, {domain} domain, eps {short(answer.settings['eps'])}"
    return figure(Chart(title, "step", tuple(curves), share=False, log_x=True, log_y=True), list(paths))


def _curve(run: int, kind: str, x: Sequence[float], y: Sequence[float | None]) -> Curve:
    """Values at steps, without those of a path that has diverged."""
    places = [(float(step), value) for step, value in zip(x, y, strict=True) if value is not None]
    steps, values = zip(*places, strict=True) if places else ((), ())
    return Curve(run, kind, steps, values)


def _against_predictions(name: str, answer: Answer, parts: Parts) -> Iterator[Item]:
    """How well the end of signGD is predicted from its start, of this problem and of random ones."""
    yield prediction_table(name, parts["prediction",])
    yield random_table(name, answer, parts["random",])
    yield _comparison(f"{name}: shift of the irrelevant weight", parts["random",]["shift"])
    yield _comparison(f"{name}: adversarial risk over that of gradient descent", parts["random",]["ratio"])


def prediction_table(name: str, record: Record) -> Table:
    """Shift of the irrelevant weight and ratio of the risks, predicted and observed."""
    rows = [
        (f"{what}", [number(value) for (value,) in record[kind]])
        for kind, what in (("shift", "Shift of the irrelevant weight"), ("ratio", "Adversarial risk over GD's limit"))
    ]
    return Table(f"{name}: signGD in the spatial domain, predicted from the start", "", ("Predicted", "Observed"), rows)


def random_table(name: str, answer: Answer, record: Record) -> Table:
    """How far predictions are off over random problems, and how often signGD costs robustness there."""
    arrived = record["arrived"]
    pairs = list(itertools.compress(zip(*record["shift"], strict=True), arrived))
    ratios = list(itertools.compress(record["ratio"][1], arrived))
    error = max((abs(one - other) for one, other in pairs), default=None)
    cells = [
        Cell(count(len(pairs)), f"of {count(len(arrived))}", value=len(pairs)),
        number(None if error is None else error / answer.settings["rate"]), number(BOUND),
        proportion([ratio > 1 for ratio in ratios]) if ratios else Cell(""),
    ]  # fmt: skip
    columns = (
        "Problems that have arrived",
        "Largest error of the shift, learning rates",
        "Its bound",
        "signGD less robust than GD",
    )
    return Table(f"{name}: signGD on random problems with this spectrum", "", columns, [("random problems", cells)])


def _comparison(title: str, pair: Sequence[Sequence[float]]) -> Chart:
    """Observed against predicted values, one point for each problem."""
    predicted, observed = map(tuple, pair)
    ends = (min(predicted), max(predicted))
    curves = (Curve(0, "predicted", ends, ends), Curve(0, "observed", predicted, observed, form="points"))
    return Chart(title, "predicted", curves, share=False, from_zero=False, alone=True)


def _statements(parts: Parts) -> Iterator[Item]:
    """What is known of signGD on any three frequencies, the last of them irrelevant."""
    charts = [region_chart(name, parts[name,]) for name in ("R", "P", "P flat")]
    tables = [input_table(parts["inputs",]), sign_table(parts["signs",])]
    yield Details("What decides the steps of signGD on three frequencies", [*tables, *charts], open=True)


def input_table(record: Record) -> Table:
    """Table 4.8: inputs of three frequencies, of which some are relevant, in the spatial domain."""
    rows = []
    for kept, coordinates in zip(record["subsets"], record["coefficients"], strict=True):
        sums = (" ".join(f"{_signed_root(c)} X{i}" for i, c in enumerate(row) if c) or "0" for row in coordinates)
        rows.append((", ".join(f"X{i}" for i in kept), [Cell(text, words=True) for text in sums]))
    return Table("Inputs in the spatial domain", "Frequencies", ("x0", "x1", "x2"), rows)


def sign_table(record: Record) -> Table:
    """Table 4.9: the steps of signGD by the signs of A, A + B and A - B."""
    rows = []
    for signs, change, lengths in zip(record["signs"], record["changes"], record["lengths"], strict=True):
        name = " ".join(f"{sign:+d}" if sign else "0" for sign in signs)
        cells = [Cell("impossible", words=True), *[Cell("", words=True)] * 3]
        if change is not None:
            cells = [*(Cell(_signed_root(x), words=True, value=x) for x in change), Cell(lengths, words=True)]
        rows.append((name, cells))
    caption = "What a step of signGD subtracts, in learning rates, by the signs of A, A + B and A − B"
    return Table(caption, "Signs", ("e0", "e1", "e2", "Lengths"), rows)


def region_chart(name: str, record: Record) -> Chart:
    """Figures 4.8 and 4.9: a partition of the pairs A and B, with the path from one pair of each region."""
    points: dict[str, list[tuple[float, float]]] = {}
    for a, b, region in zip(record["a"], record["b"], record["region"], strict=True):
        points.setdefault(region, []).append((a, b))
    curves: list[Curve] = []
    for region, (x, y) in record["orbits"].items():
        a, b = zip(*points[region], strict=True)
        curves += [Curve(0, region, a, b, form="points"), Curve(0, "path of signGD", tuple(x), tuple(y))]
    title = f"Partition {name[0]}, slope {short(record['slope'])}"
    return Chart(title, "A", tuple(curves), share=False, from_zero=False, alone=True)


def _signed_root(value: Any) -> str:
    """A number whose square is a simple fraction."""
    square = Fraction(value * value).limit_denominator(100)
    return f"{'-' if value < 0 else '+'}√({square})" if square else "0"
