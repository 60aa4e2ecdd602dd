"""Optimisers at equal terms: at their best rates, at matched loss or accuracy, and with the loss taken out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.report.optimisers.points import MEASURES, Point, Study, Trained
from holdfast.resampling import Rows, bootstrap, least_squares, rank_correlation, student_interval
from holdfast.statistics import Interval

ACCURACY_WITHIN = 0.005
"""How far clean accuracies of a matched pair may be apart."""
LOSS_WITHIN = 0.1
"""How far training losses of a matched pair may be apart, relative to the larger."""
FITS = 500
"""Draws of the bootstrap of a fit, which takes longer than others."""
FEWEST = 4
"""Runs from which on a correlation or a fit says anything."""


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval.

    Args:
        value: the number.
        interval: by resampling runs; None where most draws have no value.
    """

    value: float
    interval: Interval | None


def at_each_rate(study: Study) -> dict[tuple[str, float], list[tuple[Trained, Point]]]:
    """The main networks of every optimiser and rate, over seeds; in the order of the runs, rates rising."""
    groups: dict[tuple[str, float], list[tuple[Trained, Point]]] = {}
    for run, point in study.main():
        groups.setdefault((run.optimiser, run.rate), []).append((run, point))
    order = study.optimisers
    return dict(sorted(groups.items(), key=lambda item: (order.index(item[0][0]), item[0][1])))


def best_rates(study: Study) -> dict[str, float]:
    """The rate of each optimiser with the best mean validation accuracy; those without validation are left out."""
    best: dict[
        str, tuple[float, float]
    ] = {}  # the score, and minus the rate: of rates as good as each other the lowest
    for (optimiser, rate), networks in at_each_rate(study).items():
        scores = [point.validation for _, point in networks if point.validation is not None]
        if len(scores) == len(networks):
            best[optimiser] = max(best.get(optimiser, (-math.inf, math.nan)), (statistics.fmean(scores), -rate))
    return {optimiser: -rate for optimiser, (_, rate) in best.items()}


@dataclass(frozen=True)
class Matched:
    """The difference in mean robust accuracy between networks that are equal in something else.

    Args:
        optimiser: whose networks.
        reference: and whose they are compared with.
        difference: mean over pairs of runs, optimiser minus reference; NaN without any pair.
        pairs: pairs of runs with networks that match.
        points: networks of the optimiser that have a match.
    """

    optimiser: str
    reference: str
    difference: Estimate
    pairs: int
    points: int


def matched(study: Study, reference: str, by: Callable[[Point, Point], bool]) -> Iterator[Matched]:
    """Every other optimiser against the reference, over all epochs with results, where networks match.

    A pair of runs counts with the mean over its matching networks, each beside the mean of those it matches.
    """
    for optimiser in study.optimisers:
        if optimiser != reference:
            yield _matched(study, optimiser, reference, by)


def _matched(study: Study, optimiser: str, reference: str, by: Callable[[Point, Point], bool]) -> Matched:
    theirs, ours = ([study.runs[place] for place in study.of(name)] for name in (optimiser, reference))
    table, points = np.full((len(theirs), len(ours)), np.nan), set()
    for row, one in enumerate(theirs):
        for column, other in enumerate(ours):
            differences = []
            for place, point in enumerate(one.points):
                like = [partner.mean(study.followed) for partner in other.points if by(point, partner)]
                if like:
                    differences.append(point.mean(study.followed) - statistics.fmean(like))
                    points.add((row, place))
            if differences:
                table[row, column] = statistics.fmean(differences)
    pairs = int(np.isfinite(table).sum())
    groups = [
        [group for group in _groups(study, name) if np.isfinite(pairs_of[group]).any()]
        for name, pairs_of in ((optimiser, table), (reference, table.T))
    ]

    def difference(*drawn: Rows) -> float:
        return _mean(
            table[np.ix_(*(np.concatenate([of[n] for n in rows]) for of, rows in zip(groups, drawn, strict=True)))]
        )

    interval = student_interval(difference, *map(len, groups)) if pairs else None
    return Matched(optimiser, reference, Estimate(_mean(table), interval), pairs, len(points))


def _groups(study: Study, optimiser: str) -> list[NDArray[np.int64]]:
    """Places among the runs of an optimiser, in groups that count as independent."""
    places = {run: place for place, run in enumerate(study.of(optimiser))}
    return [np.array([places[run] for run in group]) for group in study.independent(optimiser)]


def _mean(table: NDArray[np.float64]) -> float:
    finite = table[np.isfinite(table)]
    return float(finite.mean()) if len(finite) else math.nan


def same_accuracy(one: Point, other: Point) -> bool:
    """Whether two networks have the same clean accuracy, within half a percentage point."""
    return abs(one.clean - other.clean) <= ACCURACY_WITHIN + 1e-12


def same_loss(one: Point, other: Point) -> bool:
    """Whether two networks have the same training loss, within ten per cent."""
    return abs(one.loss - other.loss) <= LOSS_WITHIN * max(one.loss, other.loss)


def correlations(study: Study) -> dict[str, tuple[Estimate, int]]:
    """Spearman's correlation of each measure with the mean robust accuracy, and over how many runs."""
    values: dict[str, list[tuple[float, float]]] = {}
    for run, point in study.main():
        robust = point.mean(study.checks)
        own = {"training loss": point.loss, "clean accuracy": point.clean, "learning rate": run.rate}
        own |= {MEASURES[name]: value for name, value in run.measures.items()}
        for name, value in own.items():
            values.setdefault(name, []).append((value, robust))
    result = {}
    for name, pairs in values.items():
        x, y = (np.array(each) for each in zip(*pairs, strict=True))
        if len(x) >= FEWEST and math.isfinite(value := rank_correlation(x, y)):
            interval = bootstrap(lambda rows, x=x, y=y: rank_correlation(x[rows], y[rows]), len(x))
            result[name] = (Estimate(value, interval), len(x))
    return result


@dataclass(frozen=True)
class Fit:
    """Mean robust accuracy as a linear function of the logarithm of the training loss.

    Args:
        slope: per factor of e in the training loss, without regard to the optimiser.
        explained: share of the variance that this explains.
        own_slope: the same slope with a constant for each optimiser.
        own_explained: share of the variance with these constants.
        effects: the constants of all optimisers but the reference, relative to it.
        networks: networks that the fit is over.
    """

    slope: Estimate
    explained: float
    own_slope: Estimate
    own_explained: float
    effects: dict[str, Estimate]
    networks: int


def _with_loss(study: Study) -> list[list[Point]]:
    """The networks of every run whose training loss has a logarithm."""
    return [[point for point in run.points if point.loss > 0] for run in study.runs]


def _enough(runs: Sequence[Sequence[Point]]) -> bool:
    """Whether there are runs and training losses enough for a fit."""
    return sum(map(bool, runs)) >= FEWEST and len({point.loss for points in runs for point in points}) >= FEWEST


def fit(study: Study, reference: str) -> Fit | None:
    """The fit over all networks after all epochs with results; intervals resample the runs of each optimiser apart."""
    runs = _with_loss(study)
    if not _enough(runs):
        return None
    others = [name for name in study.optimisers if name != reference]
    groups = [study.independent(name) for name in (reference, *others)]
    sizes = [len(group) for group in groups]

    def coefficients(*drawn: Sequence[int] | Rows) -> tuple[Any, Any, Any]:
        some = [[runs[run] for row in rows for run in group[row]] for group, rows in zip(groups, drawn, strict=True)]
        return _coefficients(some, study.followed)

    def estimate(value: float, fitted: int, place: int) -> Estimate:
        interval = student_interval(lambda *rows: float(coefficients(*rows)[fitted][place]), *sizes, draws=FITS)
        return Estimate(value, interval)

    plain, own, (explained, own_explained) = coefficients(*map(range, sizes))
    effects = {name: estimate(float(own[place]), 1, place) for place, name in enumerate(others, 2)}
    return Fit(
        slope=estimate(float(plain[1]), 0, 1), explained=explained, own_slope=estimate(float(own[1]), 1, 1),
        own_explained=own_explained, effects=effects, networks=sum(map(len, runs)),
    )  # fmt: skip


def _coefficients(runs: Sequence[Sequence[Sequence[Point]]], checks: Sequence[str]) -> tuple[Any, Any, Any]:
    """Coefficients without and with constants for optimisers but the first, and the variance that each explains."""
    chosen = [(point, place) for place, some in enumerate(runs) for points in some for point in points]
    loss = [math.log(point.loss) for point, _ in chosen]
    robust = [point.mean(checks) for point, _ in chosen]
    factors = [[float(of == place) for _, of in chosen] for place in range(1, len(runs))]
    plain, explained = least_squares([loss], robust)
    own, own_explained = least_squares([loss, *factors], robust)
    return plain, own, (explained, own_explained)
