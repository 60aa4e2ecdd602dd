"""What was not run, from the ledger and from what `run.json` says of checks that left no rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from holdfast.earlier import threat_of_name
from holdfast.questions.question import Needs
from holdfast.report.runs import RunData
from holdfast.results.recorded_checks import Budget
from holdfast.results.summaries import not_attacked, yields
from holdfast.show.items import Item, Note
from holdfast.show.numbers import count
from holdfast.show.table import Cell, Table
from holdfast.traits import finite


@dataclass(frozen=True)
class Gap:
    """Work that is missing.

    Args:
        run: label of the run.
        weights: its weights.
        check: its check.
        component: of a composed attack; empty for the check as a whole.
        examples: how many it was not run on.
        absent: whether the check left no row at all.
        reason: why it could not run on them; empty where it only was not reached.
    """

    run: str
    weights: str
    check: str
    component: str
    examples: int
    absent: bool = False
    reason: str = ""

    @property
    def what(self) -> str:
        """Check and component, with the reason if there is one."""
        what = f"{self.check}: {self.component}" if self.component else self.check
        return f"{what} ({self.reason})" if self.reason else what


GUIDE = (
    "Not everything was run. Numbers that missing results could lower are marked “at most”; their intervals allow for "
    "every outcome of the examples in question. To continue, repeat the command that produced them; where a reason is "
    "given, the attack could not run on these examples and has shown nothing about them."
)


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """Checks that were not run, or not on all examples."""

    title: ClassVar = "What was not run"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """One line for each piece of work that is missing; nothing if everything was run."""
        missing = [gap for run in runs for gap in gaps(run)]
        rows = [
            (
                gap.what,
                [
                    Cell(gap.run, words=True),
                    Cell(gap.weights, words=True),
                    Cell(count(gap.examples), value=gap.examples),
                ],
            )
            for gap in missing
        ]
        if missing:
            yield Note(GUIDE, "doubt", "Unfinished.")
            yield Table(
                "Not run, and on how many examples.", "Check", ("Run", "Weights", "Examples"), rows, style="tall"
            )


def counts_in(check: str, threat: Budget, recorded: object) -> bool:
    """Whether a check that left no rows would count in the worst case of a threat.

    Args:
        check: its name, with that of a component where only this is missing.
        threat: the norm and eps.
        recorded: norm, eps and whether it minimises a distance for each attack that was left out, as `run.json` has
            them; earlier versions recorded none, and the name tells.
    """
    if check == "clean":
        return True
    stated = recorded.get(check.split(": ")[0]) if isinstance(recorded, dict) else None
    norm, eps, minimises = (
        (stated.get("norm"), finite(stated.get("eps")), stated.get("minimises"))
        if isinstance(stated, dict)
        else threat_of_name(check)
    )
    return norm == threat.axis and (bool(minimises) or (eps is not None and eps <= threat.size))


def gaps(run: RunData) -> tuple[Gap, ...]:
    """Everything that was not run, for all weights; the rows decide wherever there are any."""
    not_run = run.section("not_run")
    others = [weights for weights in not_run if weights not in run.weights]
    return tuple(gap for weights in (*run.weights, *others) for gap in _of_weights(run, weights, not_run.get(weights)))


def absent(run: RunData, weights: str, threat: Budget) -> int:
    """How many checks that would count in the worst case of a threat left no row at all."""
    missing = [gap for gap in gaps(run) if gap.weights == weights and gap.absent]
    return sum(counts_in(gap.check, threat, run.facts.get("threats")) for gap in missing)


def unseen(run: RunData, weights: str) -> dict[str, int]:
    """How many examples each check of some weights has not seen; only those that lack any."""
    missing = [gap for gap in gaps(run) if gap.weights == weights]
    return {gap.check: gap.examples for gap in missing if not (gap.component or gap.absent or gap.reason)}


def _of_weights(run: RunData, weights: str, recorded: object) -> list[Gap]:
    rows = run.rows.filter(pl.col("weights") == weights)
    counts = _counts(recorded)
    counted = rows.group_by("check", maintain_order=True).agg(pl.col("example").n_unique())
    seen: dict[str, int] = dict(counted.iter_rows())
    left = []
    for check, examples in seen.items():
        missing = _missing(run, examples, counts.get(check, 0))
        left += [Gap(run.label, weights, check, "", missing)] if missing else []
        left += [Gap(run.label, weights, check, step, n) for step, n in _waiting(rows, check) if n]
        left += [Gap(run.label, weights, check, "", n, reason=why) for why, n in _not_attacked(rows, check)]
    covered = [what for what in counts if any(what == check or what.startswith(f"{check}: ") for check in seen)]
    others = {what: n for what, n in counts.items() if what not in covered}
    return left + [Gap(run.label, weights, what, "", n, absent=True) for what, n in others.items()]


def _missing(run: RunData, seen: int, recorded: int) -> int:
    """Examples that a check has not seen: those that other checks saw, or that `run.json` says were left out."""
    total = run.rows["example"].n_unique()
    test = finite(run.section("data").get("test"))
    # A later visit may have made up for them.
    still = recorded if test is None else min(recorded, max(int(test) - seen, 0))
    return max(total - seen, still)


def _waiting(rows: pl.DataFrame, check: str) -> list[tuple[str, int]]:
    return list(yields(rows.filter(pl.col("check") == check)).select("step", "waiting").iter_rows())


def _not_attacked(rows: pl.DataFrame, check: str) -> list[tuple[str, int]]:
    mine = rows.filter((pl.col("check") == check) & not_attacked())
    return list(mine.group_by("not_run").len().sort("not_run").iter_rows())


def _counts(recorded: object) -> Mapping[str, int]:
    if not isinstance(recorded, dict):
        return {}
    numbers: dict[str, Any] = {str(what): finite(number) for what, number in recorded.items()}
    return {what: int(number) for what, number in numbers.items() if number}
