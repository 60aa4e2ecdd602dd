"""Variants of a recipe: runs that differ in their seed alone, and numbers over them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.report.runs import RunData
from holdfast.show.names import labels
from holdfast.show.numbers import SPACE, several
from holdfast.show.table import Cell


@dataclass(frozen=True)
class Variant:
    """Runs that differ in their seed alone.

    Args:
        label: its name; with one seed for each variant that of the run.
        runs: one for each seed.
    """

    label: str
    runs: tuple[RunData, ...]


def variants(runs: Sequence[RunData]) -> list[Variant]:
    """The variants of some runs in their order; runs of one name are no seeds of each other."""
    distinct = len({run.facts["name"] for run in runs}) == len(runs)
    groups: dict[str, list[RunData]] = {}
    for run in runs:
        groups.setdefault(run.variant if distinct else run.label, []).append(run)
    if len(groups) == len(runs):
        return [Variant(run.label, (run,)) for run in runs]
    return [Variant(label, tuple(some)) for label, some in zip(labels(list(groups)), groups.values(), strict=True)]


def most_seeds(some: Sequence[Variant]) -> int:
    """The most seeds that a variant has."""
    return max(len(variant.runs) for variant in some)


def over_seeds(values: Sequence[float], write: Callable[[float], str], *, column: int, table: int) -> Cell:
    """A value, or the mean over seeds with its standard deviation.

    Args:
        values: one for each seed that has it; at least one.
        write: writes a number.
        column: seeds of the variant.
        table: the most that a variant of the table has, which its caption names.
    """
    mean = statistics.fmean(values)
    spread = f"± {write(statistics.stdev(values)).removesuffix(f'{SPACE}%')}" if len(values) > 1 else ""
    return Cell(write(mean), ", ".join(filter(None, (spread, fewer(len(values), column, table)))), value=mean)


def fewer(number: int, column: int, table: int) -> str:
    """That a cell is about fewer seeds than the caption states."""
    if number < column:
        return f"{number} of {column} seeds"
    return "" if number == table else several(number, "seed")
