"""Runs against the first one, example by example."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from holdfast.questions.question import Needs
from holdfast.report.runs import RunData
from holdfast.report.same_images import REMEDY
from holdfast.results.recorded_checks import Budget
from holdfast.results.summaries import compared, not_attacked, unsettled
from holdfast.results.worst_case import WORST, survivors, threats, title, within
from holdfast.show.items import Item, Note
from holdfast.show.numbers import count, p_value, points, several
from holdfast.show.table import Cell, Table
from holdfast.statistics import Paired, holm
from holdfast.trust.chance import at_chance

LEVEL = 0.05


@dataclass(frozen=True, kw_only=True)
class Comparisons:
    """Runs against the first one on the same examples, with exact McNemar tests."""

    title: ClassVar = "Comparison"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """A table for each run beside the first."""
        first, *others = runs
        if not others:
            text = "One run: there is nothing to compare it with. Give several run directories to compare them."
            yield Note(text, "missing")
            return
        yield Note(
            f"Each run against {first.label} on the same examples. ▲ means more examples right than {first.label}, ▼ "
            "fewer. “Better” and “worse” need p < 0.05 after Holm’s correction over the tests of a table."
        )
        for result in (comparison(first, other) for other in others):
            yield Note(result.problem, "missing") if result.problem else comparison_table(result)


@dataclass(frozen=True)
class Comparison:
    """One run against the first.

    Args:
        first: label of the first run.
        second: label of the other.
        pairs: checks that both have, each with its paired test (first against second).
        adjusted: p-values after Holm's correction over these checks.
        problem: why there is nothing to compare; empty when there is.
        unknown: checks that both have and that one has not finished, each with what is missing; they are not tested.
        common: how many test images both have.
        images: how many each has.
        at_chance: labels of those that answer no better than by guessing; they are never said to be better.
    """

    first: str
    second: str
    pairs: tuple[tuple[str, Paired], ...]
    adjusted: tuple[float, ...]
    problem: str = ""
    unknown: tuple[tuple[str, str], ...] = ()
    common: int = 0
    images: tuple[int, int] = (0, 0)
    at_chance: tuple[str, ...] = ()

    @property
    def on(self) -> str:
        """The images that are compared, in words."""
        if self.images == (self.common, self.common):
            return f"the same {several(self.common, 'image')}"
        of = " and ".join(map(count, self.images))
        return f"the {several(self.common, 'image')} that both have, of {of}"


def comparison(first: RunData, second: RunData) -> Comparison:
    """Compare the main weights of two runs on the examples both saw."""
    problem = _problem(first, second)
    if problem:
        return Comparison(first.label, second.label, (), (), problem)
    order = {check.name: place for place, check in enumerate(first.main_checks)}
    shared = [name for name in order if name in {check.name for check in second.main_checks}]
    rows = pl.concat([run.main_rows.filter(pl.col("check").is_in(shared)) for run in (first, second)])
    single = rows.select("run", "example", "correct", "check", state=_state(unsettled()))
    rows = pl.concat([single, *(_jointly(rows, threat).select(single.columns) for threat in threats(rows))])
    unknown = _unknown(rows)
    finished = rows.filter(~pl.col("check").is_in(list(unknown)))
    pairs = sorted(compared(finished, first.label, second.label), key=lambda pair: order.get(pair[0], len(order)))
    problem = "" if pairs or unknown else f"{second.label} and {first.label} share no check with common examples."
    adjusted = holm([paired.p_value for _, paired in pairs])
    seen = [set(run.main_rows["example"]) for run in (first, second)]
    return Comparison(
        first.label, second.label, tuple(pairs), adjusted, problem, tuple(unknown.items()),
        common=len(seen[0] & seen[1]), images=(len(seen[0]), len(seen[1])),
        at_chance=tuple(run.label for run in (first, second) if at_chance(run.main_rows)),
    )  # fmt: skip


def comparison_table(result: Comparison) -> Table:
    """One row per check: change, examples that changed sides, p-values and what they say."""
    columns = (
        "Examples",
        "Change in points",
        f"Only {result.first} right",
        f"Only {result.second} right",
        "p",
        "p (Holm)",
    )
    rows: list[tuple[str, list[Cell]]] = []
    for (check, paired), adjusted in zip(result.pairs, result.adjusted, strict=True):
        numbers = (
            count(paired.examples),
            points(-paired.difference),
            count(paired.only_first),
            count(paired.only_second),
            p_value(paired.p_value),
            p_value(adjusted),
        )
        rows.append((check, [*(Cell(text) for text in numbers), Cell(_verdict(result, paired, adjusted), words=True)]))
    for check, what in result.unknown:
        rows.append((check, [*[Cell("unknown")] * len(columns), Cell(f"unfinished: {what}", words=True)]))
    rows.sort(key=lambda row: row[0].startswith(WORST))
    return Table(
        f"{result.second} against {result.first}: exact McNemar test on {result.on}, "
        f"Holm-corrected over these {len(result.pairs)} tests.",
        "Check",
        (*columns, "Verdict"),
        rows,
        totals=sum(name.startswith(WORST) for name, _ in rows),
    )


def _verdict(result: Comparison, paired: Paired, adjusted: float) -> str:
    if adjusted >= LEVEL:
        return "no clear difference"
    winner = result.second if paired.difference < 0 else result.first
    if winner in result.at_chance:
        return f"{winner} is at chance level"
    return "better" if paired.difference < 0 else "worse"


def _jointly(rows: pl.DataFrame, threat: Budget) -> pl.DataFrame:
    """Rows of one more check, the worst case of a threat; none where a single attack counts, which has its own row."""
    several_attacks = within(rows, threat).filter(pl.col("method") != "clean")["check"].n_unique() > 1
    joint = survivors(rows if several_attacks else rows.clear(), threat)
    return joint.with_columns(check=pl.lit(title(threat)), state=_state(pl.col("unsettled")))


def _state(unsettled: pl.Expr) -> pl.Expr:
    """Why an example is open, in words; null if it is not."""
    reason = pl.format("not attacked ({})", "not_run")
    return pl.when(not_attacked()).then(reason).when(unsettled).then(pl.lit("waiting"))


def _unknown(rows: pl.DataFrame) -> dict[str, str]:
    """Checks that did not run on all examples, with how many of which run; no difference of theirs is known."""
    missing = rows.filter(pl.col("state").is_not_null()).group_by("check", "run", "state", maintain_order=True).len()
    words: dict[str, list[str]] = {}
    for check, run, state, number in missing.iter_rows():
        words.setdefault(check, []).append(f"{several(number, 'example')} of {run} {state}")
    return {check: ", ".join(parts) for check, parts in words.items()}


def _problem(first: RunData, second: RunData) -> str:
    prints = [run.section("data").get("fingerprint") for run in (first, second)]
    if all(prints) and prints[0] != prints[1]:
        return f"{second.label} and {first.label} were checked on different data (fingerprints differ): not compared."
    labels = [run.main_rows.select("example", "label").unique() for run in (first, second)]
    joined = labels[0].join(labels[1], on="example", suffix="_second")
    if joined.filter(pl.col("label") != pl.col("label_second")).height:
        return f"{second.label} and {first.label} disagree on the true class of an example: not compared."
    if joined.is_empty():
        return f"{second.label} and {first.label} have no test image in common: not compared; {REMEDY}."
    return ""
