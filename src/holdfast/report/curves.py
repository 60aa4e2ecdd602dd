"""The data of the charts: accuracy against a budget, and training."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from holdfast.report.runs import RunData
from holdfast.report.shares import share_of
from holdfast.results import accuracies
from holdfast.results.recorded_checks import Check
from holdfast.show.chart import Chart, Curve, Mark
from holdfast.show.names import NORMS as NORMS
from holdfast.show.numbers import short
from holdfast.traits import GREY, SIGMA, finite

AXES = (SIGMA, GREY, *NORMS)
SIZES = {"threat", "step_size", "sigma", "variance", "eps", "ratio"}  # fields that change along a line of a chart


PEOPLE = Mark("people: half of their accuracy", 0.75, 0.5)
"""Jang, McCormack, Tong, PLOS Biology 2021: about half is lost where a quarter of the image is left."""


def budget_charts(runs: Sequence[RunData]) -> tuple[Chart, ...]:
    """Accuracy against noise, and against eps of each norm; only those with data.

    A check that looks for the nearest success says more than one accuracy, and has charts of its own.
    """
    present = {check.budget.axis for run in runs for check in run.main_checks if check.budget and not check.nearest}
    axes = sorted(present, key=lambda axis: (AXES.index(axis) if axis in AXES else len(AXES), axis))
    return tuple(_budget_chart(runs, axis) for axis in axes)


def training_charts(runs: Sequence[RunData]) -> tuple[Chart, ...]:
    """Loss, accuracy and learning rate by epoch; only those with data."""
    charts = (
        Chart(
            "Loss",
            "epoch",
            _traces(runs, {"training": _at("train", "total"), "validation": _at("validation", "loss")}),
            False,
        ),
        Chart(
            "Accuracy",
            "epoch",
            _traces(
                runs,
                {
                    "training": _at("train", "accuracy"),
                    "validation": _at("validation", "accuracy"),
                    "validation, attacked": _at("validation", "robust_accuracy"),
                },
            ),
            True,
        ),
        Chart("Learning rate", "epoch", _traces(runs, {"learning rate": lambda epoch: epoch.get("lr")}), False),
    )
    return tuple(chart for chart in charts if chart.curves)


def _budget_chart(runs: Sequence[RunData], axis: str) -> Chart:
    kinds = kinds_of([check for run in runs for check in _on_axis(run, axis)])
    curves = tuple(curve for place, run in enumerate(runs) for curve in _budget_curves(place, run, axis, kinds))
    if axis == SIGMA:
        return Chart("Gaussian noise", "standard deviation σ of the noise", curves, True)
    if axis == GREY:
        return Chart("Linear corruption", "share of grey in the image", curves, True, mark=PEOPLE)
    norm = NORMS.get(axis, axis)
    return Chart(f"Changes bounded in {norm}", f"largest change ε in {norm}", curves, True)


def _on_axis(run: RunData, axis: str) -> list[Check]:
    """Checks with a budget on an axis that say no more than one accuracy."""
    return [check for check in run.main_checks if check.budget and check.budget.axis == axis and not check.nearest]


def _budget_curves(place: int, run: RunData, axis: str, kinds: Mapping[str, str]) -> Iterator[Curve]:
    """A curve of a run for each kind of check, from the clean images on."""
    clean = next((check.name for check in run.main_checks if check.clean), None)
    rows = {row["check"]: row for row in accuracies(run.main_rows).iter_rows(named=True)}
    groups: dict[str, list[tuple[float, str]]] = {}
    for check in _on_axis(run, axis):
        groups.setdefault(kinds[check.name], []).append((check.budget.size if check.budget else 0.0, check.name))
    for kind, spots in groups.items():
        start = [(0.0, clean)] if clean is not None and min(spots)[0] > 0 else []
        yield through(place, kind, [(size, rows[name]) for size, name in sorted(start + spots)])


def through(
    place: int, kind: str, spots: Sequence[tuple[float, Mapping[str, Any]]], form: Literal["line", "points"] = "line"
) -> Curve:
    """The curve of accuracies with their intervals, each at its position."""
    shares = [share_of(row) for _, row in spots]
    y, low, high = (tuple(getattr(share, key) for share in shares) for key in ("value", "low", "high"))
    return Curve(place, kind, tuple(x for x, _ in spots), y, low, high, tuple(s.bound for s in shares), form)


def kinds_of(checks: Sequence[Check]) -> dict[str, str]:
    """The kind of each check by name: its method, with the fields that tell variants of a method apart."""
    kinds = {}
    for check in checks:
        others = [_rest(other) for other in checks if other.method == check.method]
        mine = _rest(check)
        fields = [key for key in mine if any(other.get(key) != mine[key] for other in others)]
        kinds[check.name] = " ".join([check.method.replace("_", " "), *(f"{key}={mine[key]}" for key in fields)])
    return kinds


def _rest(check: Check) -> dict[str, str]:
    rest = {key: value for key, value in check.params.items() if key not in SIZES}
    return {key: value if isinstance(value, str) else _compact(value) for key, value in sorted(rest.items())}


def _compact(value: object) -> str:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else short(value)


def _at(part: str, key: str) -> Callable[[Mapping[str, Any]], object]:
    return lambda epoch: (epoch.get(part) or {}).get(key)


def _traces(
    runs: Sequence[RunData], quantities: Mapping[str, Callable[[Mapping[str, Any]], object]]
) -> tuple[Curve, ...]:
    curves = []
    for place, run in enumerate(runs):
        for kind, read in quantities.items():
            spots = [(finite(epoch.get("epoch")), finite(read(epoch))) for epoch in run.epochs]
            points = [(x, y) for x, y in spots if x is not None and y is not None]
            if points:
                curves.append(Curve(place, kind, tuple(x for x, _ in points), tuple(y for _, y in points)))
    return tuple(curves)
