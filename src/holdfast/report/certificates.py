"""The section on certificates: what is proved, and what attacks leave open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.report import brackets, certified
from holdfast.report.runs import RunData
from holdfast.show.figures import Figure, figure, figures
from holdfast.show.table import Table


@dataclass(frozen=True)
class Certificates:
    """The section on certificates, which a page always has.

    Args:
        summary: each certificate in a row.
        curves: certified accuracy against the radius.
        curve_tables: the same in numbers.
        brackets: between proof and attack.
        bracket_tables: the same in numbers.
        untried: what no attack was run against, in sentences.
        smoothed: whether some speak of a smoothed network.
    """

    summary: Table
    curves: Sequence[Figure]
    curve_tables: Sequence[Table]
    brackets: Sequence[Figure]
    bracket_tables: Sequence[Table]
    untried: Sequence[str]
    smoothed: bool

    @classmethod
    def of(cls, runs: Sequence[RunData], labels: Sequence[str]) -> Certificates:
        """What the ledgers have of them."""
        proofs = certified.proofs_of(runs)
        between = brackets.brackets_of(runs, proofs)
        return cls(
            certified.certificate_table(runs, proofs),
            figures(certified.certified_charts(runs, proofs), labels, "certified"),
            certified.certified_tables(runs, proofs),
            [figure(brackets.bracket_chart(one), [""], f"bracket-{number}") for number, one in enumerate(between)],
            [brackets.bracket_table(one) for one in between],
            brackets.untried(runs, proofs, between),
            any(one.smoothed for one in proofs),
        )

    @property
    def figures(self) -> Sequence[Figure]:
        """What the page has to draw."""
        return (*self.curves, *self.brackets)
