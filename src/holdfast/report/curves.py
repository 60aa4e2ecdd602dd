"""Accuracy against the size of the change: noise, and eps of each norm."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from holdfast.questions.question import Needs
from holdfast.report.runs import RunData
from holdfast.report.shares import ends_of, share_of
from holdfast.results.recorded_checks import Check
from holdfast.results.summaries import accuracies
from holdfast.show.chart import Chart, Curve, Mark
from holdfast.show.items import Item, Note
from holdfast.show.names import NORMS, norm_sign
from holdfast.show.numbers import short
from holdfast.traits import GREY, SIGMA

AXES = (SIGMA, GREY, *NORMS)
SIZES = {"threat", "step_size", "sigma", "variance", "eps", "ratio"}  # fields that change along a line of a chart


PEOPLE = Mark("people: half of their accuracy", 0.75, 0.5)
"""Jang, McCormack, Tong, PLOS Biology 2021: about half is lost where a quarter of the image is left."""


@dataclass(frozen=True, kw_only=True)
class Budgets:
    """Accuracy as noise or the budget of attacks grows."""

    title: ClassVar = "Noise and budgets"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """A chart for each axis."""
        charts = budget_charts(runs)
        if not charts:
            yield Note("No check has a noise level or a budget eps to be drawn here, so there is no curve.", "missing")
            return
        hollow = " A hollow mark is an upper bound: the attack is not finished there." if any_bound(charts) else ""
        yield Note(f"Accuracy as the change grows; at 0 it is the clean accuracy; bars are 95 % intervals.{hollow}")
        yield from charts


def any_bound(charts: Sequence[Chart]) -> bool:
    """Whether one of the values is only an upper bound."""
    return any(any(curve.bounds) for chart in charts for curve in chart.curves)


def budget_charts(runs: Sequence[RunData]) -> tuple[Chart, ...]:
    """Accuracy against noise, and against eps of each norm; only those with data.

    A check that looks for the nearest success says more than one accuracy, and has charts of its own.
    """
    present = {check.budget.axis for run in runs for check in run.main_checks if check.budget and not check.nearest}
    axes = sorted(present, key=lambda axis: (AXES.index(axis) if axis in AXES else len(AXES), axis))
    return tuple(_budget_chart(runs, axis) for axis in axes)


def _budget_chart(runs: Sequence[RunData], axis: str) -> Chart:
    kinds = kinds_of([check for run in runs for check in _on_axis(run, axis)])
    curves = tuple(curve for place, run in enumerate(runs) for curve in _budget_curves(place, run, axis, kinds))
    if axis == SIGMA:
        return Chart("Gaussian noise", "standard deviation σ of the noise", curves, True)
    if axis == GREY:
        return Chart("Linear corruption", "share of grey in the image", curves, True, mark=PEOPLE)
    norm = norm_sign(axis)
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
    return Curve(place, kind, tuple(x for x, _ in spots), *ends_of(shares), tuple(s.bound for s in shares), form)


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
