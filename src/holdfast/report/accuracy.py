"""Accuracy in each check and in the worst case of each threat, and what the checks cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import polars as pl

from holdfast.questions.question import Needs
from holdfast.report.runs import RunData
from holdfast.report.shares import Share, share_of
from holdfast.report.unfinished import unseen
from holdfast.report.variants import Variant, fewer, most_seeds, over_seeds, variants
from holdfast.report.worst_cases import all_threats, worst_cases
from holdfast.results.recorded_checks import Budget, Check, checks_of
from holdfast.results.summaries import accuracies
from holdfast.results.worst_case import title
from holdfast.show.items import Details, Item, Note
from holdfast.show.numbers import SPACE, count, counts, decimal, percent, several
from holdfast.show.table import Cell, Table

NOT_RUN = "not run"
COLUMNS = 4
"""Columns that a table with all weights has at most; with more, it has the main weights of each run."""

OF_EACH = "Accuracy in each check, in percent of the examples, with its 95 % Wilson interval."
OF_ALL = "Accuracy of every run and all its weights, in percent of the examples, with its 95 % Wilson interval."
COST = "What the checks cost: mean forward passes per example (queries) and seconds in total."

Network = tuple[RunData, str]
"""A run and which of its weights."""


@dataclass(frozen=True)
class Column:
    """Networks whose numbers share a column.

    Args:
        label: the run or variant.
        weights: which weights; empty for the main ones of each run.
        networks: of each seed.
        seeds: how many seeds the variant has.
    """

    label: str
    weights: str
    networks: tuple[Network, ...]
    seeds: int = 1


@dataclass(frozen=True)
class Entry:
    """What one network did in a check, or in the worst case of a threat.

    Args:
        share: its accuracy; None if no example went through all checks.
        examples: how many it is over.
        note: what else is to be known.
        checks: those that a worst case is over.
    """

    share: Share | None
    examples: int
    note: str = ""
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Accuracy in each check, worst cases and what they cost."""

    title: ClassVar = "Accuracy"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """A table over seeds where there are several, tables of every run, and costs."""
        some = variants(runs)
        most = most_seeds(some)
        every = _every(runs)
        main = _columns(some)
        yield Note(_guide(runs, seeds=most > 1))
        if most > 1:
            yield accuracy_table(runs, main, f"Accuracy in each check, mean ± standard deviation over {most} seeds.")
        else:
            yield accuracy_table(runs, main, OF_EACH)
        if most > 1 or len(main) < len(every):
            yield Details("Every run and all its weights", [accuracy_table(runs, every, OF_ALL)])
        yield Details("What the checks cost", [cost(runs)])


def every_network(runs: Sequence[RunData]) -> Table:
    """The accuracy of every run and all its weights."""
    return accuracy_table(runs, _every(runs), OF_EACH)


def _every(runs: Sequence[RunData]) -> list[Column]:
    return [Column(run.label, weights, ((run, weights),)) for run in runs for weights in run.weights]


def _guide(runs: Sequence[RunData], *, seeds: bool) -> str:
    parts = ["Brackets hold the 95 % Wilson interval; the line below a number shows both, from 0 to 100\u00a0%."]
    if seeds:
        parts = ["Runs that differ in their seed alone share a column; those of each seed are below.", *parts]
    if all_threats(runs):
        certified = any(check.certificate for check in all_checks(runs))
        parts.append(
            "“Worst case” counts the examples that are right on clean images and survive every attack in this norm "
            "with at most this eps; attacks that minimise a distance count by the distance they needed. Noise, "
            "corruptions"
            f"{', certificates' if certified else ''} and other norms have their own numbers."
        )
    both = any(len(run.weights) > 1 for run in runs)
    parts.append(
        "Both “best” (chosen on validation data) and “last” weights are reported; everything below this section is "
        "about the best weights of each run, or those that it has."
        if both
        else "Each run has results of one set of weights."
    )
    return " ".join(parts)


def _columns(some: Sequence[Variant]) -> list[Column]:
    """A column for all weights of each variant, or for the main ones where these are too many."""
    columns = [
        Column(one.label, weights, tuple(_networks(one.runs, weights)), len(one.runs))
        for one in some
        for weights in dict.fromkeys(weights for run in one.runs for weights in run.weights)
    ]
    if len(columns) <= COLUMNS:
        return columns
    return [Column(one.label, "", tuple((run, run.weights[0]) for run in one.runs), len(one.runs)) for one in some]


def _networks(runs: Sequence[RunData], weights: str) -> Iterator[Network]:
    """The networks of a column; weights without results of their own count with the main ones if these are equal."""
    for run in runs:
        if weights in run.weights:
            yield run, weights
        elif _equal(run, weights, run.weights[0]):
            yield run, run.weights[0]


def _equal(run: RunData, one: str, other: str) -> bool:
    facts = [run.section("weights").get(name) for name in (one, other)]
    hashes = [each.get("sha256") for each in facts if isinstance(each, dict)]
    return len(hashes) == 2 and hashes[0] is not None and hashes[0] == hashes[1]


def all_checks(runs: Sequence[RunData]) -> tuple[Check, ...]:
    """The checks of all runs, in order."""
    return checks_of(pl.concat([run.rows for run in runs]))


def accuracy_table(runs: Sequence[RunData], columns: Sequence[Column], caption: str) -> Table:
    """A row for every check, then one for the worst case of every threat."""
    threats = all_threats(runs)
    worst = [title(threat) for threat in threats]
    names = [*(check.name for check in all_checks(runs)), *worst]
    networks = {_place(network): network for column in columns for network in column.networks}
    entries = {place: _entries(*network, threats) for place, network in networks.items()}
    rows = [row for name in names for row in _row(name, columns, entries)]
    return Table(
        caption,
        "Check",
        ("Examples", *(f"{_named(column)} weights" for column in columns)),
        rows,
        groups=(("", 1), *_groups(columns)),
        totals=sum(name in worst for name, _ in rows),
        style="headline",
    )


def _place(network: Network) -> tuple[str, str]:
    run, weights = network
    return run.label, weights


def _row(
    name: str, columns: Sequence[Column], entries: Mapping[tuple[str, str], Mapping[str, Entry]]
) -> Iterator[tuple[str, list[Cell]]]:
    """One check; none if no network of these columns has it."""
    here = [
        [entry for network in column.networks if (entry := entries[_place(network)].get(name))] for column in columns
    ]
    if seen := [entry for some in here for entry in some]:
        differ, most = len({entry.checks for entry in seen}) > 1, max(column.seeds for column in columns)
        cells = [_cell(some, column, most, differ=differ) for some, column in zip(here, columns, strict=True)]
        yield name, [_examples(seen), *cells]


def _named(column: Column) -> str:
    return column.weights or " or ".join(dict.fromkeys(weights for _, weights in column.networks))


def _groups(columns: Sequence[Column]) -> Iterable[tuple[str, int]]:
    labels = [column.label for column in columns]
    return ((label, labels.count(label)) for label in dict.fromkeys(labels))


def _entries(run: RunData, weights: str, threats: Sequence[Budget]) -> dict[str, Entry]:
    """What a network did in each check, and in the worst case of each threat."""
    rows = accuracies(run.rows.filter(pl.col("weights") == weights)).iter_rows(named=True)
    missing = unseen(run, weights)
    entries = {row["check"]: _entry(row, missing.get(row["check"], 0)) for row in rows}
    for case in worst_cases(run, weights, threats):
        note = _part(case.examples, case.missing) if case.share else ""
        entries[case.title] = Entry(case.share, case.examples, note, case.checks)
    return entries


def _entry(row: Mapping[str, Any], missing: int) -> Entry:
    abstained = f"{several(row['abstained'], 'example')} without an answer" if row["abstained"] else ""
    note = ", ".join(filter(None, (abstained, _part(row["examples"], missing))))
    return Entry(share_of(row), row["examples"], note)


def _part(seen: int, missing: int) -> str:
    """That a check has seen only a part of the examples; empty if it has seen all."""
    return f"{count(seen)} of {count(seen + missing)} examples" if missing else ""


def _examples(entries: Sequence[Entry]) -> Cell:
    """How many examples numbers are over; a number for machines where all are over as many."""
    numbers = [entry.examples for entry in entries]
    return Cell(counts(numbers), value=numbers[0] if len(set(numbers)) == 1 else None)


def _cell(entries: Sequence[Entry], column: Column, most: int, *, differ: bool) -> Cell:
    if not entries:
        return Cell(NOT_RUN)
    shares = [entry.share for entry in entries if entry.share]
    if not shares:
        return Cell("unknown", "no example was in all checks")
    checks = several(len(entries[0].checks), "check") if differ else ""
    if len(shares) == 1:
        notes = (checks, entries[0].note, fewer(1, column.seeds, most))
        return shares[0].cell(", ".join(filter(None, notes)))
    mean = over_seeds([share.value for share in shares], percent, column=column.seeds, table=most)
    bound = any(share.bound for share in shares)
    text = f"at{SPACE}most{SPACE}{mean.text}" if bound else mean.text
    return replace(
        mean, text=text, note=", ".join(filter(None, (mean.note, checks))), value=None if bound else mean.value
    )


def cost(runs: Sequence[RunData]) -> Table:
    """Mean queries per example and total seconds of every check, run and weights."""
    rows_of = {
        (row["run"], row["weights"], row["check"]): row
        for row in accuracies(pl.concat([run.rows for run in runs])).iter_rows(named=True)
    }
    places = [(run.label, weights) for run in runs for weights in run.weights]
    rows = []
    for check in all_checks(runs):
        cells: list[Cell] = []
        for place in places:
            row = rows_of.get((*place, check.name))
            cells += (
                [Cell(NOT_RUN)] * 2 if row is None else [Cell(decimal(row["queries"])), Cell(decimal(row["seconds"]))]
            )
        rows.append((check.name, cells))
    groups = tuple((f"{label}, {weights}", 2) for label, weights in places)
    return Table(COST, "Check", ("Queries", "Seconds") * len(places), rows, groups=groups)
