"""Certificates, and networks between proof and attack.

A certificate of the network bounds its robust accuracy from below, attacks bound it from above; the truth lies between
the two. A certificate that reaches beyond an attack is an error. A certificate of a smoothed network is about another
classifier, so that no attack here bounds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from holdfast.questions.question import Needs
from holdfast.report.proofs import (
    LIMIT,
    Proof,
    certificate_table,
    certified_charts,
    certified_curve,
    certified_tables,
    proof,
    proofs_of,
)
from holdfast.report.runs import RunData
from holdfast.report.shares import counted_share, ends_of
from holdfast.results.certified_radii import contradictions, nearest_breaks, round_radii
from holdfast.results.groups import group_contradictions
from holdfast.show.chart import Band, Chart, Curve
from holdfast.show.items import Details, Heading, Item, Note
from holdfast.show.names import norm_sign
from holdfast.show.numbers import count, percent, short
from holdfast.show.table import Cell, Table

REFUTED = 50  # pairs in the table of errors
CERTIFIED, ATTACKED, BETWEEN = "certified", "attacked: no break found", "the truth lies here"

GUIDE = Note(
    "A certified example is right and provably stays so within its radius. The certified accuracy at a radius is the "
    "share of the examples that are right and whose certificate reaches that far; bands are 95 % Wilson intervals."
)
BETWEEN_GUIDE = Note(
    "A certificate bounds the robust accuracy of the network from below. Attacks bound it from above: an example "
    "counts as unbroken at a radius if no check has found a wrong answer that near, whatever its budget. Both are "
    "about the same examples, so that the robust accuracy lies in the shaded area."
)
SMOOTHED = Note(
    "Certificates of a smoothed network have no attack line. They are about the network averaged over noise; the "
    "attacks here are on the network itself, so that neither bounds the other. Certificates hold for each image with "
    "the probability that the certifier was asked for."
)


@dataclass(frozen=True, kw_only=True)
class Certificates:
    """Certified accuracy and radii, and how far attacks leave them open.

    Args:
        radii: radii of the table of certified accuracy; round ones if there are none.
    """

    title: ClassVar = "Certificates"
    needs: ClassVar = Needs.ROWS

    radii: tuple[float, ...] = ()

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """Each certificate in a row, certified accuracy against the radius, then proof beside attack."""
        proofs = proofs_of(runs)
        if not proofs:
            yield Note("Nothing was certified: no certifier, such as margin or smoothing, was run.", "missing")
            return
        yield GUIDE
        yield certificate_table(runs, proofs)
        yield from certified_charts(runs, proofs)
        tables = certified_tables(runs, proofs, self.radii)
        yield from (Details(table.caption, [table], open=len(proofs) == 1) for table in tables)
        yield from (_fine(runs, one) for one in proofs if one.fine)
        if brackets := brackets_of(runs, proofs):
            yield Heading("Between proof and attack")
            yield BETWEEN_GUIDE
            yield from map(bracket_chart, brackets)
            yield from (Details(table.caption, [table]) for table in map(bracket_table, brackets))
        yield from untried(runs, proofs, brackets)
        if any(one.smoothed for one in proofs):
            yield SMOOTHED


def _fine(runs: Sequence[RunData], one: Proof) -> Note:
    """Radii that no image of eight bits can use."""
    return Note(
        f"{one.heading(runs)}: {count(one.fine)} of {count(one.examples)} radii are above 0 but below 1/255, the "
        "resolution of 8-bit images: no other such image lies within them.",
        "doubt",
    )


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
    if one.smoothed or one.of_groups or mine.is_empty():
        return None
    breaks = nearest_breaks(run.main_rows, one.norm).filter(pl.col("example").is_in(mine["example"].implode()))
    broken = breaks["distance"].drop_nulls().sort().to_numpy()
    attacks = tuple(tried["check"].unique(maintain_order=True))
    refuted = one.check.name in contradictions(run.main_rows)["check"]
    return Bracket(f"{run.label}: {one.check.name}", proof(0, one.weights, one.check, mine), broken, attacks, refuted)


def bracket_chart(one: Bracket) -> Chart:
    """Certified, attacked and what lies between."""
    below = certified_curve(one.proof, 0, CERTIFIED, one.far)
    at = np.unique(np.concatenate([[0.0], one.broken[one.broken <= one.far], [one.far]]))
    if len(at) > LIMIT:
        at = np.linspace(0.0, one.far, LIMIT)
    shares = [counted_share(one.unbroken(float(radius)), one.proof.examples) for radius in at]
    above = Curve(0, ATTACKED, tuple(at.tolist()), *ends_of(shares), form="steps")
    bands = () if one.refuted else (Band(BETWEEN, above, below),)
    axis = f"largest change in {norm_sign(one.proof.norm)}"
    title = f"{one.title}: {'refuted' if one.refuted else 'certified ≤ true ≤ attacked'}"
    return Chart(title, axis, (below, above), True, bands=bands, alone=True)


def bracket_table(one: Bracket) -> Table:
    """The chart in numbers, at round radii."""
    rows = []
    for radius in round_radii(one.far):
        below, above = one.proof.certified_at(radius), one.unbroken(radius)
        gap = Cell(percent((above - below) / one.proof.examples))
        rows.append((short(radius), [counted_share(n, one.proof.examples).cell() for n in (below, above)] + [gap]))
    caption = (
        f"{one.title}, {count(one.proof.examples)} examples: right and certified, and not broken by any check, "
        f"within a radius in {norm_sign(one.proof.norm)}. Attacks: {', '.join(one.attacks)}."
    )
    return Table(caption, "Radius", ("Certified", "Attacked", "Unknown"), rows)


def untried(runs: Sequence[RunData], proofs: Sequence[Proof], brackets: Sequence[Bracket]) -> Iterator[Note]:
    """Certificates of networks that no attack was run beside."""
    attacked = {one.title for one in brackets}
    for one in proofs:
        run = runs[one.place]
        main = one.weights == run.weights[0] and not one.smoothed and not one.of_groups
        if main and f"{run.label}: {one.check.name}" not in attacked:
            yield Note(
                f"No attack in {norm_sign(one.norm)} was run on {run.label} beside {one.check.name}, so that its "
                "robust accuracy is bounded from below only.",
                "missing",
            )


@dataclass(frozen=True, kw_only=True)
class Refuted:
    """Certificates that another check refutes."""

    title: ClassVar = ""
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """How many there are, what that means, and the most glaring of them; nothing if there are none."""
        of_classes = contradictions(pl.concat([run.rows for run in runs]))
        of_groups = (group_contradictions(run.rows, run.hierarchy) for run in runs if run.hierarchy is not None)
        contradicted = pl.concat([of_classes, *of_groups])
        if contradicted.is_empty():
            return
        examples = contradicted.select("run", "weights", "check", "example").n_unique()
        rows = [(_who(row), _claim(row)) for row in contradicted.head(REFUTED).iter_rows(named=True)]
        names = ", ".join(contradicted["run"].unique(maintain_order=True))
        yield Note(
            f"{count(examples)} certified examples of {names} are refuted: a check found another answer inside the "
            "certified radius. Either the certificate or the check is wrong; neither number may be used before it is "
            "known which. Look first whether a `constant` was given that is too small, and whether both saw the same "
            "network: a forward pass that changes with its mode or its calls has no certificate.",
            "error",
            "Error.",
        )
        more = f", {REFUTED} of {count(len(contradicted))} shown" if len(contradicted) > REFUTED else ""
        columns = ("Example", "Certified radius", "Distance found", "By")
        caption = f"Certificates against what was found{more}."
        yield Table(caption, "Certificate", columns, rows, style="tall")


def _who(row: dict[str, Any]) -> str:
    return f"{row['run']}, {row['weights']} weights: {row['check']}"


def _claim(row: dict[str, Any]) -> list[Cell]:
    numbers = [Cell(str(row["example"])), Cell(short(row["radius"]), row["norm"]), Cell(short(row["distance"]))]
    return [*numbers, Cell(row["found_by"], words=True)]
