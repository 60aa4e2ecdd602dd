"""How far the nearest successes are: robust accuracy against eps, and the distances themselves.

Minimum-norm attacks leave the distance of every broken example in the ledger. An example that is wrong on the clean
image is broken at 0, one that stands is broken nowhere up to the attack's eps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from holdfast.questions.question import Needs
from holdfast.report.curves import any_bound, kinds_of, through
from holdfast.report.runs import RunData
from holdfast.report.shares import Share
from holdfast.results.recorded_checks import Budget, Check, checks_of
from holdfast.results.summaries import accuracies
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Details, Item, Note
from holdfast.show.names import norm_sign, ordered_norms
from holdfast.show.numbers import count, percent, short
from holdfast.show.table import Cell, Table
from holdfast.statistics import wilson

STEPS = 400  # points of a curve at most; more cannot be told apart
BINS = 20  # of the distribution
COLUMNS = 5  # distances in the table of a curve

GUIDE = (
    "Minimum-norm attacks look for the nearest change that breaks an example. The share of examples that are right and "
    "whose nearest break is beyond ε is the robust accuracy at ε: one attack gives the whole curve. Points are attacks "
    "at one budget, with 95 % intervals; a point below a curve found more than it. True distances may be smaller "
    "still. The chart beside it has the share of the examples, of those right before, by distance."
)
HOLLOW = " A hollow point is an upper bound: the attack is not finished there."
NONE = "No minimum-norm attack, such as fab, fmn or deepfool, was run, so smallest distances are not known."


@dataclass(frozen=True, kw_only=True)
class SmallestDistances:
    """How far the nearest changes are that break examples."""

    title: ClassVar = "Distances"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """Robust accuracy against eps, distributions of distances, and their quartiles."""
        nearest = distances_of(runs)
        if not nearest:
            yield Note(NONE, "missing")
            return
        charts = distance_charts(runs, nearest)
        yield Note(GUIDE + HOLLOW * any_bound(charts))
        yield from charts
        yield quartile_table(runs, nearest)
        yield from (Details(table.caption, [table]) for table in curve_tables(runs, nearest))


@dataclass(frozen=True)
class Distances:
    """What one minimum-norm check found for one set of weights.

    Args:
        place: of its run in the report.
        weights: the weights.
        check: the check.
        norm: that distances are in.
        eps: the largest distance of interest.
        broken: distance of every broken example in order, 0 where it was wrong before.
        examples: how many there are, broken or not.
        not_attacked: how many of them are right and could not be attacked.
        reason: why they could not.
    """

    place: int
    weights: str
    check: Check
    norm: str
    eps: float
    broken: NDArray[np.float64]
    examples: int
    not_attacked: int = 0
    reason: str = ""

    def right(self, eps: float) -> int:
        """Examples that are right although the adversary may go as far as eps."""
        return self.examples - int(np.searchsorted(self.broken, eps, side="right"))

    @property
    def wrong_before(self) -> int:
        """Examples that are wrong without any change."""
        return self.examples - self.right(0.0)

    @property
    def broken_by_attack(self) -> NDArray[np.float64]:
        """Distances of the examples that had to be changed to break them, in order."""
        return self.broken[self.wrong_before :]

    def quantile(self, share: float) -> float | None:
        """The smallest distance that breaks this share of the examples right before; None if it is beyond eps."""
        needed = int(np.ceil(share * (self.examples - self.wrong_before)))
        return float(self.broken_by_attack[max(needed, 1) - 1]) if 0 < needed <= len(self.broken_by_attack) else None


def distances_of(runs: Sequence[RunData]) -> tuple[Distances, ...]:
    """The minimum-norm checks of all runs and weights, in the order of the runs, their weights and the checks."""
    return tuple(
        _distances(place, weights, check, budget, run.rows.filter(pl.col("weights") == weights))
        for place, run in enumerate(runs)
        for weights in run.weights
        for check in checks_of(run.rows.filter(pl.col("weights") == weights))
        if (budget := check.nearest)
    )


def _distances(place: int, weights: str, check: Check, budget: Budget, rows: pl.DataFrame) -> Distances:
    mine = rows.filter(pl.col("check") == check.name)
    wrong = rows.filter((pl.col("method") == "clean") & ~pl.col("correct"))["example"]
    broken = mine.filter(~pl.col("correct")).select(
        pl.when(pl.col("example").is_in(wrong.implode()))
        .then(0.0)
        .otherwise(pl.col("distance").fill_nan(0.0).fill_null(0.0).clip(0.0, budget.size))
    )
    missing = accuracies(mine).select("not_attacked", "reason").row(0)
    distances = np.sort(broken.to_series().to_numpy())
    return Distances(place, weights, check, budget.axis, budget.size, distances, len(mine), *missing)


def distance_charts(runs: Sequence[RunData], distances: Sequence[Distances]) -> tuple[Chart, ...]:
    """For each norm, and each set of weights that runs have: robust accuracy against eps, and the distribution."""
    charts = []
    for norm in ordered_norms(one.norm for one in distances):
        for rank in range(max(len(run.weights) for run in runs)):
            chosen = [one for one in distances if one.norm == norm and _rank(runs, one) == rank]
            if chosen:
                about = f"{norm_sign(norm)}{_weights(chosen) if rank else ''}"
                kinds = _kinds(chosen)
                curves = [_steps(one, kinds[one.check.name]) for one in chosen] + _fixed(runs, norm, rank)
                title = f"largest change ε in {norm_sign(norm)}"
                charts.append(Chart(f"Robust accuracy in {about}", title, tuple(curves), True))
                far = max(one.eps for one in chosen)
                bars = tuple(_histogram(one, kinds[one.check.name], far) for one in chosen)
                title = f"smallest distance found, in {norm_sign(norm)}"
                charts.append(Chart(f"Distances in {about}", title, bars, True, whole=False))
    return tuple(charts)


def _steps(one: Distances, kind: str) -> Curve:
    places = np.unique(np.concatenate([[0.0], one.broken_by_attack, [one.eps]]))
    if len(places) > STEPS:
        places = np.linspace(0.0, one.eps, STEPS)
    right = [one.right(float(eps)) / one.examples for eps in places]
    bound = f", at most: {one.not_attacked} not attacked" if one.not_attacked else ""
    return Curve(one.place, f"{kind}{bound}", tuple(float(eps) for eps in places), tuple(right), form="steps")


def _histogram(one: Distances, kind: str, far: float) -> Curve:
    """Share of the examples right before in each of `BINS` equal bins, drawn from the left edge of each."""
    counts, edges = np.histogram(one.broken_by_attack, bins=BINS, range=(0.0, far))
    shares = counts / max(one.examples - one.wrong_before, 1)
    return Curve(one.place, kind, tuple(edges.tolist()), (*shares.tolist(), 0.0), form="steps")


def _fixed(runs: Sequence[RunData], norm: str, rank: int) -> list[Curve]:
    """Accuracies under attacks with a fixed budget in this norm, as points."""
    chosen: list[tuple[int, Check, dict[str, Any]]] = []
    for place, run in enumerate(runs):
        if rank < len(run.weights):
            rows = run.rows.filter(pl.col("weights") == run.weights[rank])
            numbers = {row["check"]: row for row in accuracies(rows).iter_rows(named=True)}
            chosen += [(place, check, numbers[check.name]) for check in checks_of(rows) if _is_fixed(check, norm)]
    kinds = kinds_of([check for _, check, _ in chosen])
    groups: dict[tuple[int, str], list[tuple[float, dict[str, Any]]]] = {}
    for place, check, row in chosen:
        size = check.budget.size if check.budget else 0.0
        groups.setdefault((place, kinds[check.name]), []).append((size, row))
    return [through(place, kind, spots, "points") for (place, kind), spots in groups.items()]


def _is_fixed(check: Check, norm: str) -> bool:
    attack = "threat" in check.params and not check.nearest
    return attack and check.budget is not None and check.budget.axis == norm


def curve_tables(runs: Sequence[RunData], distances: Sequence[Distances]) -> tuple[Table, ...]:
    """For each norm, the share of the examples that is right at a few distances."""
    tables = []
    for norm in ordered_norms(one.norm for one in distances):
        chosen = [one for one in distances if one.norm == norm]
        far = max(one.eps for one in chosen)
        grid = [far * step / COLUMNS for step in range(COLUMNS + 1)]
        rows = [
            (runs[one.place].heading(one.weights, one.check.name), [_right_at(one, eps) for eps in grid])
            for one in chosen
        ]
        caption = f"Robust accuracy against the largest change ε in {norm_sign(norm)}, from minimum-norm attacks."
        tables.append(Table(caption, "Attack", [f"ε = {short(eps)}" for eps in grid], rows))
    return tuple(tables)


def quartile_table(runs: Sequence[RunData], distances: Sequence[Distances]) -> Table:
    """Quartiles of the distances of every minimum-norm check."""
    missing = any(one.not_attacked for one in distances)
    rows = []
    for one in distances:
        right = one.examples - one.wrong_before
        beyond = right - len(one.broken_by_attack) - one.not_attacked
        cells = [Cell(count(one.examples)), Cell(count(one.wrong_before))]
        cells += [_quantile(one, share) for share in (0.25, 0.5, 0.75)]
        cells.append(Cell(count(beyond), f"({percent(beyond / right)})" if right else ""))
        cells += [Cell(count(one.not_attacked), one.reason)] if missing else []
        rows.append((runs[one.place].heading(one.weights, one.check.name), cells))
    return Table(
        "Smallest distances to an error, over the examples that are right on clean images; those that survive are "
        "beyond ε.",
        "Attack",
        (
            "Examples",
            "Wrong before",
            "Lower quartile",
            "Median",
            "Upper quartile",
            "Beyond ε",
            *["Not attacked"] * missing,
        ),
        rows,
    )


def _right_at(one: Distances, eps: float) -> Cell:
    if eps > one.eps * (1 + 1e-9):
        return Cell("beyond its ε")
    right = one.right(eps)
    ends = wilson(right, one.examples)
    low = wilson(right - one.not_attacked, one.examples).low if one.not_attacked else ends.low
    share = Share(right / one.examples, low, ends.high, not_attacked=one.not_attacked, reason=one.reason)
    return share.cell()


def _quantile(one: Distances, share: float) -> Cell:
    value = one.quantile(share)
    if one.examples == one.wrong_before:
        return Cell("none right")
    return Cell(f"beyond {short(one.eps)}" if value is None else short(value))


def _rank(runs: Sequence[RunData], one: Distances) -> int:
    return runs[one.place].weights.index(one.weights)


def _weights(chosen: Sequence[Distances]) -> str:
    return ", " + " and ".join(sorted({one.weights for one in chosen})) + " weights"


def _kinds(chosen: Sequence[Distances]) -> dict[str, str]:
    """A word for the line of each check; its whole name where one run has two lines of the same word."""
    kinds = kinds_of([one.check for one in chosen])
    words = [(one.place, kinds[one.check.name]) for one in chosen]
    twice = {word for place, word in words if words.count((place, word)) > 1}
    return {name: name if kind in twice else kind for name, kind in kinds.items()}
