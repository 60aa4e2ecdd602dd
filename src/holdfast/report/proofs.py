"""What certifiers proved: how many examples hold how far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from holdfast.report.runs import RunData
from holdfast.report.shares import Share, counted_share, ends_of
from holdfast.results.certified_radii import (
    average_certified_radius,
    certified_area,
    round_radii,
    round_step,
)
from holdfast.results.recorded_checks import Check, checks_of
from holdfast.show.chart import Chart, Curve
from holdfast.show.names import norm_sign, ordered_norms
from holdfast.show.numbers import MISSING, count, decimal, short
from holdfast.show.table import Cell, Table
from holdfast.traits import NETWORK, SMOOTHED, is_smoothed

LIMIT = 1000  # steps of a curve at most; where there are more radii, it is exact at so many of equal distance
TRAPEZOIDS = 100  # of the smallest area, about
STEP = 1 / 255
"""The least change of an 8-bit image, the same in every norm."""


@dataclass(frozen=True)
class Proof:
    """What one certifier proved of one set of weights.

    Args:
        place: of its run in the report.
        weights: the weights.
        check: the check.
        norm: that radii are in.
        summary: its row of `average_certified_radius`.
        radii: of the examples that are right, in order.
        examples: how many there are, right or not.
        fine: how many radii, of all of them, are above 0 and below the resolution of 8-bit images.
    """

    place: int
    weights: str
    check: Check
    norm: str
    summary: dict[str, Any]
    radii: NDArray[np.float64]
    examples: int
    fine: int

    def heading(self, runs: Sequence[RunData]) -> str:
        """The name of its row."""
        return runs[self.place].heading(self.weights, self.check.name)

    @property
    def smoothed(self) -> bool:
        """Whether it is about the network averaged over noise."""
        return is_smoothed(self.check.traits.certifies)

    @property
    def of_groups(self) -> bool:
        """Whether it is about groups of classes."""
        return self.check.traits.certifies not in (NETWORK, SMOOTHED)

    def certified_at(self, radius: float) -> int:
        """Examples that are right and certified at this radius."""
        return len(self.radii) - int(np.searchsorted(self.radii, radius, side="left"))

    def share(self, radius: float) -> Share:
        """The certified accuracy at this radius."""
        return counted_share(self.certified_at(radius), self.examples)


def proofs_of(runs: Sequence[RunData]) -> tuple[Proof, ...]:
    """The certificates of all runs and weights, in the order of the runs, their weights and the checks."""
    return tuple(
        proof(place, weights, check, rows.filter(pl.col("check") == check.name))
        for place, run in enumerate(runs)
        for weights in run.weights
        for rows in [run.rows.filter(pl.col("weights") == weights)]
        for check in checks_of(rows)
        if check.certificate
    )


def proof(place: int, weights: str, check: Check, rows: pl.DataFrame) -> Proof:
    """What rows of one certifier say."""
    one_run = rows.with_columns(run=pl.lit(rows["run"][0]))  # its directory may have had another name before
    (summary,) = average_certified_radius(one_run).to_dicts()
    radii = rows.filter("correct")["radius"].sort().to_numpy()
    fine = rows.filter((pl.col("radius") > 0) & (pl.col("radius") < STEP)).height
    return Proof(place, weights, check, summary["norm"], summary, radii, len(rows), fine)


def certified_charts(runs: Sequence[RunData], proofs: Sequence[Proof]) -> tuple[Chart, ...]:
    """Certified accuracy of all runs' main weights, for each norm: of networks, and of smoothed networks."""
    main = [one for one in proofs if one.weights == runs[one.place].weights[0]]
    charts = []
    for norm in ordered_norms(one.norm for one in main):
        for smoothed in (False, True):
            chosen = [one for one in main if (one.norm, one.smoothed) == (norm, smoothed)]
            if chosen:
                far = max((float(one.radii[-1]) for one in chosen if len(one.radii)), default=0.0)
                curves = tuple(certified_curve(one, one.place, one.check.name, far) for one in chosen)
                whose = "smoothed network" if smoothed else "network"
                axis = f"radius in {norm_sign(norm)}"
                charts.append(Chart(f"Certified accuracy of the {whose}, {norm_sign(norm)}", axis, curves, True))
    return tuple(charts)


def certified_curve(one: Proof, place: int, kind: str, far: float) -> Curve:
    """Steps that hold up to each radius, and 0 beyond the largest."""
    at = np.unique(np.concatenate([[0.0], one.radii]))
    if len(at) > LIMIT:
        at = np.linspace(0.0, float(one.radii[-1]), LIMIT)
    shares = [*(one.share(float(radius)) for radius in at), counted_share(0, one.examples)]
    return Curve(place, kind, (*at.tolist(), far), *ends_of(shares), form="until")


def certificate_table(runs: Sequence[RunData], proofs: Sequence[Proof]) -> Table:
    """One line for each certificate: accuracy, abstentions, average radius, area and cost."""
    steps = {norm: _step(proofs, norm) for norm in ordered_norms(one.norm for one in proofs)}
    rows = []
    for one in proofs:
        summary = one.summary
        mine = runs[one.place].rows.filter((pl.col("weights") == one.weights) & (pl.col("check") == one.check.name))
        area = certified_area(mine, steps[one.norm])["area"].item()
        interval = MISSING if summary["low"] is None else f"[{short(summary['low'])}, {short(summary['high'])}]"
        cells = [
            Cell(count(one.examples)),
            one.share(0.0).cell(),
            Cell(count(summary["abstained"])),
            Cell(f"{short(summary['average'])} in {norm_sign(one.norm)}", interval, value=summary["average"]),
            Cell(short(area), f"step {short(steps[one.norm])}", value=area),
            Cell(_samples(summary["queries"])),
        ]
        rows.append((one.heading(runs), cells))
    return Table(
        "What was certified. Wrong and missing answers have the radius 0; brackets are 95 % intervals.",
        "Certificate",
        (
            "Examples",
            "Right",
            "Without an answer",
            "Average radius",
            "Area under the curve",
            "Samples per image",
        ),
        rows,
    )


def certified_tables(runs: Sequence[RunData], proofs: Sequence[Proof], radii: Sequence[float] = ()) -> list[Table]:
    """For each norm, the certified accuracy at some radii, or at round ones."""
    tables = []
    for norm in ordered_norms(one.norm for one in proofs):
        chosen = [one for one in proofs if one.norm == norm]
        shown = radii or round_radii(max(one.summary["largest"] for one in chosen))
        rows = [(one.heading(runs), [one.share(radius).cell() for radius in shown]) for one in chosen]
        where = f"within a radius in {norm_sign(norm)}"
        caption = f"Certified accuracy: share of the examples that are classified correctly and certified {where}."
        tables.append(Table(caption, "Certificate", [f"r = {short(radius)}" for radius in shown], rows))
    return tables


def _samples(mean: float | None) -> str:
    """A mean number of samples; whole numbers without a point."""
    return count(mean) if mean is not None and mean.is_integer() else decimal(mean)


def _step(proofs: Sequence[Proof], norm: str) -> float:
    """One width of trapezoids for all certificates in a norm, so that their areas compare; narrow for each of them."""
    largest = [one.summary["largest"] for one in proofs if one.norm == norm and one.summary["largest"] > 0]
    return round_step(min(largest, default=1.0), TRAPEZOIDS)
