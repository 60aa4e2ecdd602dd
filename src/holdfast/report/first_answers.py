"""Top-k accuracy: whether the label is among the first answers of a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from holdfast.questions.question import Needs
from holdfast.report.runs import RunData
from holdfast.report.variants import Variant, most_seeds, over_seeds, variants
from holdfast.results.ledger import natural
from holdfast.show.items import Item
from holdfast.show.numbers import interval, percent
from holdfast.show.table import Cell, Table
from holdfast.statistics import wilson

FEWEST = 20
"""Classes from which on pages show top-k accuracy; with few classes hardly any answer is not among the first five."""

GUIDE = (
    "How often the label is among the first {k} answers. Attacks look for a wrong first answer and may stop there, so "
    "that against an attack on the first {k} answers a network may be less robust than this."
)


@dataclass(frozen=True, kw_only=True)
class FirstAnswers:
    """Top-k accuracy in each check, for data sets of many classes.

    Args:
        k: answers that count.
        classes: fewest classes for which it is shown.
    """

    title: ClassVar = "Top-k accuracy"
    needs: ClassVar = Needs.ROWS

    k: int = 5
    classes: int = FEWEST

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """A row for each check, a column for the main weights of each run or variant."""
        many = [run for run in runs if run.classes >= max(self.classes, self.k + 1)]
        some = variants(many) if many else []
        columns = {one.label: [top_shares(run.main_rows, self.k) for run in one.runs] for one in some}
        checks = sorted({check for each in columns.values() for shares in each for check in shares}, key=natural)
        if not checks:
            return
        yield GUIDE.format(k=self.k)
        most = most_seeds(some)
        rows = [(check, [_cell(one, columns[one.label], check, most) for one in some]) for check in checks]
        of = f", mean ± standard deviation over {most} seeds" if most > 1 else ""
        yield Table(f"Top-{self.k} accuracy{of}", "Check", [one.label for one in some], rows, style="headline")


def top_shares(rows: pl.DataFrame, k: int) -> Mapping[str, tuple[int, int]]:
    """On how many examples of each check the label is among the first k answers, and of how many.

    Checks that have no ranks, certificates and those of earlier versions, are left out.
    """
    grouped = rows.filter(pl.col("rank").is_not_null()).group_by("check").agg((pl.col("rank") <= k).sum(), pl.len())
    return {check: (right, examples) for check, right, examples in grouped.iter_rows()}


def _cell(variant: Variant, shares: Sequence[Mapping[str, tuple[int, int]]], check: str, most: int) -> Cell:
    """The share of one run with its interval, or the mean over seeds."""
    values = [one[check] for one in shares if check in one]
    if not values:
        return Cell("")
    if most == 1:
        right, examples = values[0]
        of = wilson(right, examples)
        value = right / examples
        return Cell(percent(value), interval(of.low, of.high), span=(value, of.low, of.high), value=value)
    means = [right / examples for right, examples in values]
    return over_seeds(means, percent, column=len(variant.runs), table=most)
