"""The data of a search's charts: pure functions of what was found."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.interpolate import griddata
from scipy.spatial import QhullError

from holdfast.search.findings import Findings, TrialRecord
from holdfast.search.ranges import Choice, Log

BAND = 0.1
"""How far from its held value, as a share of its range, a value may lie to count as held."""


@dataclass(frozen=True)
class Savings:
    r"""What pruning saved: the paper's table 7.

    Args:
        pruned: seconds of training that the trials took.
        full: seconds that they would have taken without pruning, each epoch as long as those that ran.
        trials: how many, failed ones left out.
        best: number of the best trial; None where there is none, or several.

    Reference:
        SPIDER's appendix, table 7. With :math:`g` = full / pruned, the equivalent trials are trials / :math:`g`: as
        many as cost the same without pruning.
    """

    pruned: float
    full: float
    trials: int
    best: int | None

    @property
    def gain(self) -> float:
        """How many times faster than without pruning."""
        return self.full / self.pruned if self.pruned else 1.0

    @property
    def equivalent(self) -> float:
        """How many trials without pruning would have taken as long."""
        return self.trials / self.gain


def savings(findings: Findings) -> Savings:
    """What pruning saved in a search."""
    ran = [trial for trial in findings.trials if trial.state in ("complete", "pruned") and trial.epochs]
    whole = [one.seconds * (one.planned / one.epochs if one.state == "pruned" else 1.0) for one in ran]
    single = findings.best[0].number if findings.best and len(findings.goals) == 1 else None
    return Savings(sum(trial.seconds for trial in ran), sum(whole), len(ran), single)


@dataclass(frozen=True)
class Points:
    """Values over an axis.

    Args:
        x: positions.
        y: values.
        numbers: of the trials.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Axis:
    """An axis for the values of a range.

    Args:
        title: what runs along it.
        log: whether ratios are drawn alike.
        ticks: words for the positions 0, 1, 2, ... of a choice; empty for numbers.
    """

    title: str
    log: bool = False
    ticks: tuple[str, ...] = ()


def axis(findings: Findings, path: str) -> Axis:
    """The axis of a range."""
    one = findings.ranges[path]
    return Axis(findings.labels[path], isinstance(one, Log), one.grid() if isinstance(one, Choice) else ())


def position(findings: Findings, path: str, trial: TrialRecord) -> float:
    """Where a trial lies on the axis of a range."""
    one, drawn = findings.ranges[path], trial.drawn[path]
    return float(one.grid().index(drawn)) if isinstance(one, Choice) else float(drawn)


def history(findings: Findings, goal: int) -> tuple[Points, Points]:
    """Values of all complete trials, and the best so far after each of them."""
    values = [trial.values[goal] for trial in findings.complete]
    better = max if findings.goals[goal].maximize else min
    numbers = tuple(trial.number for trial in findings.complete)
    x = tuple(float(number) for number in numbers)
    return Points(x, tuple(values), numbers), Points(x, tuple(itertools.accumulate(values, better)), numbers)


def slice_(findings: Findings, path: str, goal: int) -> Points:
    """A goal over one range, all else as it came."""
    points = sorted((position(findings, path, one), one.values[goal], one.number) for one in findings.complete)
    x, y, numbers = zip(*points, strict=True) if points else ((), (), ())
    return Points(x, y, numbers)


@dataclass(frozen=True)
class Surface:
    """A goal over two ranges.

    Args:
        x: positions along the first.
        y: positions along the second.
        z: values, a row for each `y`; None outside of the trials.
        points: the trials: `x` and `y` are their positions.
        values: of the trials.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    z: tuple[tuple[float | None, ...], ...]
    points: Points
    values: tuple[float, ...]


def surface(findings: Findings, across: str, up: str, goal: int, *, resolution: int = 33) -> Surface | None:
    """A goal over two ranges, linear between the complete trials and unknown outside of them.

    All other ranges are as they came, so that it is a view, not a cut. None where trials do not span an area.
    """
    trials = findings.complete
    places = np.array([[findings.ranges[p].place(t.drawn[p]) for p in (across, up)] for t in trials]).reshape(-1, 2)
    values = np.array([trial.values[goal] for trial in trials])
    grid = np.linspace(0, 1, resolution)
    try:
        z = griddata(places, values, tuple(np.meshgrid(grid, grid)), method="linear")
    except (QhullError, ValueError):
        return None
    rows = tuple(tuple(float(v) if math.isfinite(v) else None for v in row) for row in z)
    x, y = (tuple(position(findings, path, trial) for trial in trials) for path in (across, up))
    numbers = tuple(trial.number for trial in trials)
    along, upwards = (tuple(_at(findings.ranges[path], place) for place in grid) for path in (across, up))
    return Surface(along, upwards, rows, Points(x, y, numbers), tuple(map(float, values)))


def _at(one: Any, place: float) -> float:
    """The position on a range's axis of a place from 0 to 1."""
    if isinstance(one, Choice):
        return float(place * (len(one.values) - 1))
    if isinstance(one, Log):
        return float(one.low * (one.high / one.low) ** place)
    return float(one.low + place * (one.high - one.low))


@dataclass(frozen=True)
class Sensitivity:
    """Results over one range while the others are held: the paper's figure 5.

    Args:
        path: the range that varies.
        held: what the others are held at, as Optuna has it.
        scores: every score of the trials, by name.
    """

    path: str
    held: Mapping[str, Any]
    scores: Mapping[str, Points]


def sensitivity(
    findings: Findings, path: str, held: Mapping[str, Any] | None = None, *, band: float = BAND
) -> Sensitivity:
    r"""All scores of the complete trials over one range, of those that agree in the other ranges.

    The seed varies SPIDER's radius :math:`\tau` at a fixed :math:`s(\tau) = 1/c + \xi`, which is to hold :math:`\xi`.
    A search over :math:`\tau` alone, with :math:`\xi` a plain value in the recipe, gives that figure with all its
    trials; in a search over both, these are the trials near the held :math:`\xi`.

    Args:
        findings: those of the search.
        path: the range that varies.
        held: values of the others; those of the best trial when None.
        band: how far, as a share of its range, another value may lie from its held value. Choices must be equal.
    """
    if held is None:
        held = findings.best[0].drawn if findings.best else {}
    others = {other: value for other, value in held.items() if other != path}
    near = [trial for trial in findings.complete if all(_near(findings, trial, *one, band) for one in others.items())]
    near = sorted(near, key=lambda trial: position(findings, path, trial))
    names = dict.fromkeys(name for trial in near for name in _scores(findings, trial))
    scores = {}
    for name in names:
        having = [trial for trial in near if name in _scores(findings, trial)]
        x = tuple(position(findings, path, trial) for trial in having)
        y = tuple(_scores(findings, trial)[name] for trial in having)
        scores[name] = Points(x, y, tuple(trial.number for trial in having))
    return Sensitivity(path, others, scores)


def _near(findings: Findings, trial: TrialRecord, path: str, value: Any, band: float) -> bool:
    one = findings.ranges[path]
    if isinstance(one, Choice):
        return bool(trial.drawn[path] == value)
    return abs(one.place(trial.drawn[path]) - one.place(value)) <= band + 1e-12


def _scores(findings: Findings, trial: TrialRecord) -> Mapping[str, float]:
    own = {goal.label: value for goal, value in zip(findings.goals, trial.values, strict=True) if goal.checks}
    return {**(trial.scores or {}), **own}
