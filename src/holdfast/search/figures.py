"""The charts of a search's page."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.search.findings import Findings
from holdfast.search.plots import Axis, Points, Sensitivity, axis, history, sensitivity, slice_, surface
from holdfast.search.schema import Goal
from holdfast.show.chart import Chart, Curve
from holdfast.show.figures import SCALE, Figure, Key, figure, plain
from holdfast.show.numbers import percent, short

QUIET = "var(--quiet)"
PAIRS = 3
"""Ranges whose pairs have a contour plot: the most important ones."""
WORD = 18
"""Letters of a choice on an axis."""
STATES = {"complete": "complete", "pruned": "given up", "failed": "failed", "lost": "worker lost, run again"}


def search_figures(findings: Findings) -> dict[str, list[Figure]]:
    """All charts by the part of the page that shows them."""
    return {
        "front": _front(findings),
        "history": [_history(findings, goal) for goal in range(len(findings.goals))],
        "epochs": _intermediate(findings),
        "importance": [_importance(findings, goal) for goal in range(len(findings.goals)) if findings.importance[goal]],
        "slices": [_slice(findings, path, goal) for goal in range(len(findings.goals)) for path in ordered(findings)],
        "contours": _contours(findings),
        "sensitivity": _sensitivities(findings),
    }


def ordered(findings: Findings) -> list[str]:
    """Ranges, the most important for the first goal first."""
    return [*findings.importance[0], *(path for path in findings.ranges if path not in findings.importance[0])]


def _history(findings: Findings, goal: int) -> Figure:
    points, best = history(findings, goal)
    aim = findings.goals[goal]
    curves = (
        Curve(0, "best so far", best.x, best.y, form="steps"),
        Curve(0, "complete trial", points.x, points.y, form="points"),
    )
    drawn = _drawn(Chart(aim.label, "trial", curves, aim.share, whole=False))
    return _hover(drawn, [None, points.numbers])


def _intermediate(findings: Findings) -> list[Figure]:
    """Scores by epoch, as far as the pruner saw them; trials that it gave up are grey."""
    trials = [trial for trial in findings.trials if trial.steps]
    if not trials:
        return []
    order = sorted(trials, key=lambda trial: trial.state == "complete")  # grey ones behind
    curves = tuple(Curve(0, str(trial.number), *_columns(trial.steps), form="line") for trial in order)
    share = Goal(score=findings.judged).share
    drawn = figure(Chart(f"Validation {findings.judged.replace('_', ' ')}", "epoch", curves, share, whole=False), [""])
    for trace, trial in zip(drawn.spec["data"], order, strict=True):
        best, kept = trial in findings.best, trial.state == "complete"
        ink = "var(--series-1)" if best else "var(--series-0)" if kept else QUIET
        trace["line"] = {"color": ink, "width": 3 if best else 1.5, "dash": "solid"}
        trace["marker"] = {"color": ink, "size": 5 if len(trial.steps) == 1 else 3}
        trace["mode"], trace["opacity"] = "lines+markers", 1 if best else 0.75 if kept else 0.45
        trace["name"] = f"trial {trial.number}, {STATES.get(trial.state, trial.state)}"
    keys = (Key("best", 1, 0), Key("complete", 0, 0), Key("given up", None, 0))
    return [replace(_relaxed(drawn), keys=keys)]


def _importance(findings: Findings, goal: int) -> Figure:
    shares = findings.importance[goal]
    empty = Chart(f"Importance for {findings.goals[goal].label}", "share", (), False)
    drawn = figure(empty, [""])
    names = [plain(findings.labels[path]) for path in shares]
    bars = {
        "type": "bar", "orientation": "h", "x": list(shares.values()), "y": names,
        "marker": {"color": "var(--series-0)"}, "hovertemplate": "%{y}: %{x:.1%}<extra></extra>",
    }  # fmt: skip
    layout = drawn.spec["layout"]
    layout["yaxis"] |= {"type": "category", "autorange": "reversed"}
    layout["yaxis"].pop("rangemode")
    layout["xaxis"] |= {"range": [0, 1], "tickformat": ".0%"}
    layout["height"] = 120 + 34 * len(names)
    return replace(drawn, spec={"data": [bars], "layout": layout})


def _slice(findings: Findings, path: str, goal: int) -> Figure:
    aim, along = findings.goals[goal], axis(findings, path)
    points = slice_(findings, path, goal)
    best = [number in [trial.number for trial in findings.best] for number in points.numbers]
    curves = [_some(points, best, "complete trial", keep=False), _some(points, best, "best", keep=True)]
    shown = [(curve, numbers) for curve, numbers in curves if curve.x]
    chart = Chart(f"{aim.label} over {along.title}", along.title, tuple(c for c, _ in shown), aim.share, whole=False)
    drawn = _hover(_drawn(chart), [n for _, n in shown])
    _along(drawn.spec["layout"]["xaxis"], along)
    return drawn


def _some(points: Points, which: Sequence[bool], kind: str, *, keep: bool) -> tuple[Curve, tuple[int, ...]]:
    places = [place for place, chosen in enumerate(which) if chosen == keep]
    x, y = (tuple(column[place] for place in places) for column in (points.x, points.y))
    return Curve(0, kind, x, y, form="points"), tuple(points.numbers[place] for place in places)


def _contours(findings: Findings) -> list[Figure]:
    """Each goal over the pairs of the most important ranges."""
    drawn = []
    # Between two choices there is nothing.
    numbers = [path for path in ordered(findings) if not axis(findings, path).ticks]
    for goal, (across, up) in itertools.product(range(len(findings.goals)), itertools.combinations(numbers[:PAIRS], 2)):
        made = _contour(findings, across, up, goal)
        drawn += [] if made is None else [made]
    return drawn


def _contour(findings: Findings, across: str, up: str, goal: int) -> Figure | None:
    seen, aim = surface(findings, across, up, goal), findings.goals[goal]
    if seen is None:
        return None
    along, upwards = axis(findings, across), axis(findings, up)
    chart = Chart(f"{aim.label} over {along.title} and {upwards.title}", along.title, (), aim.share, whole=False)
    drawn = figure(chart, [""])
    shading = {
        "type": "contour", "x": seen.x, "y": seen.y, "z": seen.z, "colorscale": SCALE, "reversescale": not aim.maximize,
        "connectgaps": False, "line": {"width": 0.5, "color": QUIET}, "hoverinfo": "skip",
        "colorbar": {"thickness": 12, "outlinewidth": 0, "tickfont": {"color": QUIET}, **_format(aim)},
    }  # fmt: skip
    dots = {
        "type": "scatter", "mode": "markers", "x": seen.points.x, "y": seen.points.y, "customdata": seen.points.numbers,
        "text": [value_text(value, aim) for value in seen.values], "marker": {"color": "var(--ink)", "size": 6},
        "hovertemplate": "trial %{customdata}: %{text}<extra></extra>",
    }  # fmt: skip
    layout = drawn.spec["layout"]
    title = {"text": plain(upwards.title), "font": {"size": 13}, "standoff": 8}
    layout["yaxis"] = {key: value for key, value in layout["yaxis"].items() if key != "tickformat"} | {"title": title}
    for name, one in (("xaxis", along), ("yaxis", upwards)):
        _along(layout[name], one)
        layout[name]["automargin"] = False  # beside a scale of colours it would not come to rest
    layout["margin"]["l"] = 64
    return replace(drawn, spec={"data": [shading, dots], "layout": layout})


def _sensitivities(findings: Findings) -> list[Figure]:
    seen = [sensitivity(findings, path) for path in ordered(findings)] if findings.best else []
    return [drawn for one in seen for drawn in _sensitivity(findings, one)]


def _sensitivity(findings: Findings, seen: Sensitivity) -> list[Figure]:
    """Scores that are shares in one chart; others would need an axis of their own."""
    shares = {name: points for name, points in seen.scores.items() if Goal(score=_word(name)).share}
    if not shares or len(next(iter(shares.values())).x) < 2:
        return []
    curves = tuple(Curve(0, name.replace("_", " "), points.x, points.y, form="line") for name, points in shares.items())
    held = ", ".join(
        f"{findings.labels[path]} ≈ {parameter_text(findings.ranges[path].decode(v))}" for path, v in seen.held.items()
    )
    along = axis(findings, seen.path)
    title = f"{along.title}{f' with {held}' if held else ''}"
    drawn = _hover(
        _drawn(Chart(title, along.title, curves, True, whole=False)),
        [points.numbers for points in shares.values()],
    )
    _along(drawn.spec["layout"]["xaxis"], along)
    return [drawn]


def _word(name: str) -> str:
    """The score that a label is about: 'accuracy of pgd (validation)' is about accuracy."""
    return name.partition(" of ")[0]


def _front(findings: Findings) -> list[Figure]:
    """Two goals against each other, for every pair."""
    drawn = []
    for first, second in itertools.combinations(range(len(findings.goals)), 2):
        across, up = findings.goals[first], findings.goals[second]
        others = [trial for trial in findings.complete if trial not in findings.best]
        front = sorted(findings.best, key=lambda trial: trial.values[first])
        groups = [("other trials", others, "points"), ("Pareto front", front, "line")]
        curves = [
            (Curve(0, kind, *_columns([(t.values[first], t.values[second]) for t in some]), form=form), some)  # type: ignore[arg-type]
            for kind, some, form in groups
            if some
        ]
        chart = Chart(
            f"{up.label} against {across.label}", across.label, tuple(c for c, _ in curves), up.share, whole=False
        )
        made = _hover(_drawn(chart), [tuple(t.number for t in some) for _, some in curves])
        made.spec["layout"]["xaxis"] |= _format(across)
        drawn.append(made)
    return drawn


def _drawn(chart: Chart) -> Figure:
    return _relaxed(figure(chart, [""]))


def _relaxed(drawn: Figure) -> Figure:
    """Axes that fit the values: what matters in a search are differences, not the distance from zero."""
    for name in ("xaxis", "yaxis"):
        drawn.spec["layout"][name].pop("rangemode", None)
    return drawn


def _along(layout: dict[str, Any], along: Axis) -> None:
    """Draw an axis as its range wants it."""
    layout.pop("rangemode", None)
    if along.log:
        layout["type"] = "log"
    if along.ticks:
        words = [plain(tick if len(tick) <= WORD else f"{tick[: WORD - 1]}…") for tick in along.ticks]
        layout |= {"tickvals": list(range(len(words))), "ticktext": words}
        layout["range"] = [-0.5, len(along.ticks) - 0.5]


def _hover(drawn: Figure, numbers: Sequence[Sequence[int] | None]) -> Figure:
    """Name the trial under the pointer."""
    for trace, some in zip(drawn.spec["data"], numbers, strict=True):
        if some is None:
            trace["hoverinfo"] = "skip"
            trace.pop("hovertemplate", None)
        else:
            trace["customdata"] = list(some)
            trace["hovertemplate"] = "trial %{customdata}, " + trace["hovertemplate"]
    return drawn


def _format(goal: Goal) -> dict[str, Any]:
    return {"tickformat": ".0%"} if goal.share else {}


def _columns(pairs: Sequence[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(float(x) for x, _ in pairs), tuple(float(y) for _, y in pairs)


def value_text(value: float, goal: Goal) -> str:
    """What a goal measured."""
    return percent(value) if goal.share else short(float(value))


def parameter_text(value: Any) -> str:
    """What a trial had for a range."""
    if isinstance(value, str):
        return value
    return short(value) if isinstance(value, float) else json.dumps(value, default=str)
