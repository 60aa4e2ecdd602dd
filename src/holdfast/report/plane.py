"""The plane of accuracy and robustness: every run as a point, mixtures of two as a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import polars as pl

from holdfast.questions.mixing import Mixture, mixtures_of
from holdfast.questions.mixing.summary import POLICY, AtStrength, written
from holdfast.questions.question import Needs
from holdfast.report.runs import RunData, answers_of, of_stored_answers
from holdfast.report.shares import Share, share_of
from holdfast.report.worst_cases import all_threats, worst_cases
from holdfast.results.recorded_checks import Budget
from holdfast.results.summaries import accuracies
from holdfast.show.chart import Chart, Curve
from holdfast.show.figures import COLOURS, DASHES, Figure, Key, figure, plain
from holdfast.show.items import Details, Item, Note
from holdfast.show.names import norm_sign
from holdfast.show.numbers import decimal, several, short
from holdfast.show.table import Cell, Table

HOVER = "%{fullData.name}<br>clean %{x:.1%}, attacked %{y:.1%}<br>%{text}<extra></extra>"

GUIDE = Note(
    "Each run is a point: runs that are right more often on clean images are further right, runs that survive more "
    "attacks within the budget are higher. Crosses are 95\u00a0% intervals. A line is the mixtures of two "
    "networks from the standard one to the robust one, under attacks that aim at all of them and on the images of that "
    "analysis. Runs that were attacked less may look better than they are."
)


@dataclass(frozen=True)
class Point:
    """One run.

    Args:
        place: of the run in the report.
        label: its name.
        clean: accuracy on clean images.
        worst: accuracy in the worst case of the threat.
        attacks: how many count in it.
    """

    place: int
    label: str
    clean: Share
    worst: Share
    attacks: int


@dataclass(frozen=True, kw_only=True)
class Plane:
    """Accuracy against robustness: runs as points, mixtures of two networks as lines."""

    title: ClassVar = "Accuracy and robustness"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """A chart for each budget that several runs, or a run and a mixture, were attacked in."""
        labels = [run.label for run in runs]
        charts, tables = [], []
        with of_stored_answers(self.title):
            lines = mixtures_of(answers_of(runs, "mixing"))
            for budget in budgets(runs, lines):
                points = points_of(runs, budget)
                mixed = [one for one in lines if budget_of(one) == budget]
                if len(points) + 2 * len(mixed) > 1:
                    charts.append(plane_chart(points, mixed, labels, budget))
                    tables.append(plane_table(points, mixed, budget))
        if charts:
            yield GUIDE
            yield from charts
            yield Details("Accuracy and robustness in numbers", tables)


def budgets(runs: Sequence[RunData], lines: Sequence[Mixture]) -> list[Budget]:
    """One of each norm: where most runs and mixtures were attacked, then where most attacks have just this budget."""
    among, own = all_threats(runs), Counter[Budget]()
    seen = Counter(case.threat for run in runs for case in worst_cases(run, run.weights[0], among))
    for run in runs:
        own.update(check.threat for check in run.main_checks if check.threat and not check.nearest)
    seen.update({budget_of(one) for one in lines})
    chosen: dict[str, Budget] = {}
    for budget in sorted(seen, key=lambda one: (seen[one], own[one], one.size)):
        chosen[budget.axis] = budget
    return [chosen[norm] for norm in sorted(chosen)]


def budget_of(one: Mixture) -> Budget:
    """The budget of the attacks on mixtures."""
    return Budget(one.settings["norm"], one.plan.eps)


def points_of(runs: Sequence[RunData], budget: Budget) -> list[Point]:
    """The runs that have clean images and a worst case in this threat."""
    points = []
    for place, run in enumerate(runs):
        clean = run.main_rows.filter(pl.col("method") == "clean")
        case = next(iter(worst_cases(run, run.weights[0], [budget])), None)
        if clean.is_empty() or case is None or case.share is None:
            continue
        alone = share_of(accuracies(clean).row(0, named=True))
        points.append(Point(place, run.label, alone, case.share, len(case.checks) - 1))
    return points


def plane_chart(points: Sequence[Point], lines: Sequence[Mixture], labels: Sequence[str], budget: Budget) -> Figure:
    """Runs as points with their intervals, mixtures as lines from the standard network to the robust one."""
    norm = norm_sign(budget.axis)
    curves = tuple(
        Curve(point.place, "run", (point.clean.value,), (point.worst.value,), form="points") for point in points
    )
    chart = Chart(f"Accuracy and robustness, {norm} {short(budget.size)}", "right on clean images", curves, share=True)
    made = figure(chart, labels)
    dots = [_dot(trace, point) for trace, point in zip(made.spec["data"], points, strict=True)]
    drawn = [trace for number, one in enumerate(lines) for trace in _line(one, number)]
    layout = made.spec["layout"]
    x = {**layout["xaxis"], "rangemode": "normal", "tickformat": ".0%"}
    y = {**layout["yaxis"], "title": {"text": "right in the worst case", "font": {"size": 13}, "standoff": 8}}
    keys = (*made.keys, *(_line_key(one, number) for number, one in enumerate(lines)))
    spec = {"data": [*drawn, *dots], "layout": {**layout, "xaxis": x, "yaxis": y}}
    return replace(made, keys=keys, spec=spec, note=words(points, lines))


def _dot(trace: Mapping[str, Any], point: Point) -> dict[str, Any]:
    """A run with its intervals in both directions, hollow where attacks are not finished."""
    errors = {f"error_{axis}": _bars(share, trace["marker"]["color"]) for axis, share in
              (("x", point.clean), ("y", point.worst))}  # fmt: skip
    marker = {**trace["marker"], "symbol": "circle-open" if point.worst.bound else "circle"}
    note = f"{several(point.attacks, 'attack')}"
    return {**trace, **errors, "marker": marker, "name": plain(point.label), "text": [note], "hovertemplate": HOVER}


def _bars(share: Share, colour: str) -> dict[str, Any]:
    ends = {"array": [share.high - share.value], "arrayminus": [share.value - share.low]}
    return {"type": "data", "symmetric": False, **ends, "color": colour, "thickness": 1, "width": 0}


def _line(one: Mixture, number: int) -> list[dict[str, Any]]:
    policy = [at for at in one.summary.strengths if at.mixture == POLICY]
    ink, dash = f"var(--series-{one.answer.place % COLOURS})", DASHES[_dash(number)]
    line = _trace(one, one.summary.fixed) | {"mode": "lines+markers", "line": {"color": ink, "dash": dash, "width": 2}}
    line["marker"] = {"color": ink, "size": 6, "symbol": "diamond"}
    star = _trace(one, policy) | {"mode": "markers", "marker": {"color": ink, "size": 12, "symbol": "star"}}
    return [line, star] if policy else [line]


def _trace(one: Mixture, points: Sequence[AtStrength]) -> dict[str, Any]:
    return {
        "type": "scatter", "name": plain(f"mixtures of {one.who}"), "x": [at.clean.value for at in points],
        "y": [at.worst.value for at in points], "hovertemplate": HOVER,
        "text": [at.mixture if at.mixture == POLICY else f"strength {written(at.mixture)}" for at in points],
    }  # fmt: skip


def _line_key(one: Mixture, number: int) -> Key:
    return Key(
        f"mixtures of {one.who}, {several(one.summary.examples, 'image')}",
        one.answer.place % COLOURS,
        _dash(number),
        row=number == 0,
    )


def _dash(number: int) -> int:
    return number % len(DASHES)


def words(points: Sequence[Point], lines: Sequence[Mixture]) -> str:
    """Which runs are Pareto-optimal, and whether a mixture beats both of its ends."""
    front = [point.label for point in points if not any(_beats(other, point) for other in points)]
    front_words = f"Pareto-optimal runs (no other is as good in both and better in one): {', '.join(front)}."
    front_sentence = front_words if len(points) > 1 else ""
    return " ".join(filter(None, [front_sentence, *(_of_line(one) for one in lines)]))


def _beats(one: Point, other: Point) -> bool:
    ahead = (one.clean.value - other.clean.value, one.worst.value - other.worst.value)
    return min(ahead) >= 0 and max(ahead) > 0


def _of_line(one: Mixture) -> str:
    ends = one.summary.fixed
    clean = max(ends[0].clean.value, ends[-1].clean.value)
    robust = max(ends[0].worst.value, ends[-1].worst.value)
    both = max(one.summary.strengths, key=lambda at: min(at.clean.value - clean, at.worst.value - robust))
    lost = [max(0.0, best - got) for best, got in ((clean, both.clean.value), (robust, both.worst.value))]
    return (
        f"Compared with the better network in each accuracy, mixtures of {one.who} lose least at {_at(both)}: "
        f"{_points(lost[0])} on clean images and {_points(lost[1])} under attack."
    )


def _points(share: float) -> str:
    return f"{decimal(100 * share)} points"


def _at(point: AtStrength) -> str:
    return "the policy’s strengths" if point.mixture == POLICY else f"strength {written(point.mixture)}"


def plane_table(points: Sequence[Point], lines: Sequence[Mixture], budget: Budget) -> Table:
    """The same in numbers."""
    rows: list[tuple[str, list[Cell]]] = [
        (point.label, [point.clean.cell(), point.worst.cell(), Cell(several(point.attacks, "attack"))])
        for point in points
    ]
    for one in lines:
        tries = Cell(several(len(one.summary.aims), "attack"))
        for at in one.summary.strengths:
            shares = [Share(rate.value, rate.low, rate.high) for rate in (at.clean, at.worst)]
            rows.append((f"mixture of {one.who}, {_at(at)}", [*(share.cell() for share in shares), tries]))
    norm = norm_sign(budget.axis)
    caption = f"Clean accuracy, and accuracy in the worst case of all attacks within {norm} {short(budget.size)}"
    return Table(caption, "Run", ("Clean", "Worst case", "Tried"), rows)
