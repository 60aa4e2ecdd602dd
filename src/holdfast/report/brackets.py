"""A network between proof and attack.

A certificate of the network bounds its robust accuracy from below, attacks bound it from above; the truth lies between
the two. A certificate that reaches beyond an attack is an error. A certificate of a smoothed network speaks of another
classifier, so that no attack here bounds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from holdfast.report.certified import LIMIT, Proof, certified_curve, counted_share, proof
from holdfast.report.curves import NORMS
from holdfast.report.runs import RunData
from holdfast.report.tables import share_cell
from holdfast.results.certified_radii import contradictions, nearest_breaks, round_radii
from holdfast.show.chart import Band, Chart, Curve
from holdfast.show.numbers import count, percent, short
from holdfast.show.table import Cell, Table

REFUTED = 50  # pairs in the table of errors
CERTIFIED, ATTACKED, BETWEEN = "certified: holds for sure", "attacked: no break found", "the truth lies here"


@dataclass(frozen=True)
class Bracket:
    """A network between proof and attack, over the examples that saw both.

    Args:
        title: run and certificate.
        proof: the certificate on these examples.
        broken: distance of the nearest break of each example that has one, in order.
        attacks: that were run on them in the norm of the certificate.
        refuted: whether the certificate claims more than they leave; then nothing lies between.
    """

    title: str
    proof: Proof
    broken: NDArray[np.float64]
    attacks: tuple[str, ...]
    refuted: bool

    def unbroken(self, radius: float) -> int:
        """Examples for which no check has found a wrong answer at this distance or less."""
        return self.proof.examples - int(np.searchsorted(self.broken, radius, side="right"))

    @property
    def far(self) -> float:
        """Where both curves end: at the last radius or behind nearly all breaks; noise breaks some from very far."""
        ends = [float(self.proof.radii[-1])] if len(self.proof.radii) else []
        ends += [float(np.quantile(self.broken, 0.95, method="higher"))] if len(self.broken) else []
        return max(ends, default=0.0)


def brackets_of(runs: Sequence[RunData], proofs: Sequence[Proof]) -> tuple[Bracket, ...]:
    """Each certificate of a run's main network that was attacked in its norm."""
    made = [_bracket(runs[one.place], one) for one in proofs if one.weights == runs[one.place].weights[0]]
    return tuple(bracket for bracket in made if bracket)


def _bracket(run: RunData, one: Proof) -> Bracket | None:
    names = [check.name for check in run.main_checks if check.attack]
    tried = run.main_rows.filter(pl.col("check").is_in(names) & (pl.col("norm") == one.norm))
    both = pl.col("example").is_in(tried["example"].unique().implode())
    mine = run.main_rows.filter(pl.col("check") == one.check.name).filter(both)
    if one.smoothed or mine.is_empty():
        return None
    breaks = nearest_breaks(run.main_rows, one.norm).filter(pl.col("example").is_in(mine["example"].implode()))
    broken = breaks["distance"].drop_nulls().sort().to_numpy()
    attacks = tuple(tried["check"].unique(maintain_order=True))
    refuted = one.check.name in contradictions(run.main_rows)["check"]
    return Bracket(f"{run.label}: {one.check.name}", proof(0, one.weights, one.check, mine), broken, attacks, refuted)


def bracket_chart(one: Bracket) -> Chart:
    """Certified, attacked and what lies between."""
    norm = NORMS.get(one.proof.norm, one.proof.norm)
    below = certified_curve(one.proof, 0, CERTIFIED, one.far)
    at = np.unique(np.concatenate([[0.0], one.broken[one.broken <= one.far], [one.far]]))
    if len(at) > LIMIT:
        at = np.linspace(0.0, one.far, LIMIT)
    shares = [counted_share(one.unbroken(float(radius)), one.proof.examples) for radius in at]
    y, low, high = (tuple(getattr(share, key) for share in shares) for key in ("value", "low", "high"))
    above = Curve(0, ATTACKED, tuple(at.tolist()), y, low, high, form="steps")
    bands = () if one.refuted else (Band(BETWEEN, above, below),)
    title = f"{one.title}: {'refuted' if one.refuted else 'certified ≤ true ≤ attacked'}"
    return Chart(title, f"largest change in {norm}", (below, above), True, bands=bands)


def bracket_table(one: Bracket) -> Table:
    """The chart in numbers, at round radii."""
    rows = []
    for radius in round_radii(one.far):
        below, above = one.proof.standing(radius), one.unbroken(radius)
        gap = Cell(percent((above - below) / one.proof.examples))
        rows.append((short(radius), [share_cell(counted_share(n, one.proof.examples)) for n in (below, above)] + [gap]))
    caption = (
        f"{one.title}, {count(one.proof.examples)} examples: right and certified, and not broken by any check, "
        f"within a radius in {NORMS.get(one.proof.norm, one.proof.norm)}. Attacks: {', '.join(one.attacks)}."
    )
    return Table(caption, "Radius", ("Certified", "Attacked", "Unknown"), rows)


def untried(runs: Sequence[RunData], proofs: Sequence[Proof], brackets: Sequence[Bracket]) -> tuple[str, ...]:
    """Sentences on certificates of networks that no attack was run beside."""
    attacked = {one.title for one in brackets}
    return tuple(
        f"No attack in {NORMS.get(one.norm, one.norm)} was run on {runs[one.place].label} beside {one.check.name}, "
        "so that its robust accuracy is bounded from below only."
        for one in proofs
        if not one.smoothed
        and one.weights == runs[one.place].weights[0]
        and f"{runs[one.place].label}: {one.check.name}" not in attacked
    )


@dataclass(frozen=True)
class Refuted:
    """Certificates that cannot be true.

    Args:
        sentence: how many, and what that means.
        table: the pairs, the most glaring first.
    """

    sentence: str
    table: Table


def refuted(runs: Sequence[RunData]) -> Refuted | None:
    """Certificates of all weights that other checks refute; None if there are none."""
    contradicted = contradictions(pl.concat([run.rows for run in runs]))
    if contradicted.is_empty():
        return None
    examples = contradicted.select("run", "weights", "check", "example").n_unique()
    rows = [(_who(row), _claim(row)) for row in contradicted.head(REFUTED).iter_rows(named=True)]
    names = ", ".join(contradicted["run"].unique(maintain_order=True))
    sentence = (
        f"{count(examples)} certified examples of {names} are refuted: a "
        "check found another answer inside the certified radius. Either the certificate or the check is wrong; "
        "neither number may be used before it is known which. Look first whether a `constant` was given that is too "
        "small, and whether both saw the same network: a forward pass that changes with its mode or its calls has no "
        "certificate."
    )
    more = f", {REFUTED} of {count(len(contradicted))} shown" if len(contradicted) > REFUTED else ""
    columns = ("Example", "Certified radius", "Distance found", "By")
    return Refuted(sentence, Table(f"Certificates against what was found{more}.", "Certificate", columns, rows))


def _who(row: dict[str, Any]) -> str:
    return f"{row['run']}, {row['weights']} weights: {row['check']}"


def _claim(row: dict[str, Any]) -> list[Cell]:
    numbers = [Cell(str(row["example"])), Cell(short(row["radius"]), row["norm"]), Cell(short(row["distance"]))]
    return [*numbers, Cell(row["found_by"], words=True)]
