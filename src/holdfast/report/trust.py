"""Can the numbers be trusted? The verdicts on each run, in words and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from holdfast.questions.question import Needs
from holdfast.report.runs import RunData
from holdfast.show.items import Details, Item, Note
from holdfast.show.numbers import listed, several
from holdfast.show.table import Cell, Table
from holdfast.trust.consistency import from_rows
from holdfast.trust.verdict import Verdict, displayed, failed

WORDS = {"pass": "passed", "warn": "warning", "fail": "FAILED", "not tested": "not tested"}
HEAT = {"pass": None, "warn": 0.3, "fail": 0.8, "not tested": None}
SEEN_IN = {"model": "without an attack", "attacks": "in the attacks of an audit", "ledger": "in the checks here"}


GUIDE = Note("An attack that fails for the wrong reason makes a network look robust. Each line is one such reason.")


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Whether the numbers of attacks mean something."""

    title: ClassVar = "Can these numbers be trusted?"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """Every verdict on each run; those of doubtful runs are open."""
        yield GUIDE
        for run in runs:
            for view in dict.fromkeys(["", *(one.view for one in run.verdicts)]):
                verdicts = verdicts_on(run, view)
                if view and not verdicts:  # of weights that are no more
                    continue
                opened = bool(failed(verdicts)) or len(runs) == 1
                name = f"{run.label}, groups of level '{view}'" if view else run.label
                table = trust_table(run.label, run.weights[0], verdicts, view)
                yield Details(f"{name}: {sentence(verdicts)}", [table], open=opened)


def verdicts_on(run: RunData, view: str = "") -> Sequence[Verdict]:
    """The verdicts on the main weights: those stored, and of classes those that the ledger itself gives.

    Args:
        run: the run.
        view: the level whose groups are the classes; empty for the classes themselves.
    """
    hashes = set(run.main_rows["weights_hash"].drop_nulls())
    own = [one for one in run.verdicts if one.weights == run.weights[0] and one.weights_hash in hashes]
    kept = [one.verdict for one in own if one.view == view]
    if view:
        return displayed(kept)
    return displayed([*(verdict for verdict in kept if verdict.evidence != "ledger"), *from_rows(run.main_rows)])


def trust_table(run: str, weights: str, verdicts: Sequence[Verdict], view: str = "") -> Table:
    """Every verdict on some weights of a run, with its remedy."""
    groups = f", groups of level '{view}'" if view else ""
    caption = f"Whether the results of attacks can be trusted, tested on {run} ({weights} weights{groups})."
    rows = [(verdict.condition, _cells(verdict)) for verdict in verdicts]
    return Table(caption, "Condition", ("Verdict", "Finding", "What to do"), rows, style="wordy")


def _cells(verdict: Verdict) -> list[Cell]:
    remedy = verdict.remedy or ("nothing" if verdict.level == "pass" else "run `holdfast audit` on the run")
    word = Cell(WORDS[verdict.level], SEEN_IN[verdict.evidence], heat=HEAT[verdict.level], words=True)
    return [word, Cell(verdict.finding, words=True), Cell(remedy, words=True)]


def sentence(verdicts: Sequence[Verdict]) -> str:
    """The outcome in one sentence."""
    bad = list(dict.fromkeys(verdict.condition for verdict in failed(verdicts)))
    if bad:
        return f"No: {several(len(bad), 'condition')} failed ({listed(bad, 11)})."
    tested = [verdict for verdict in verdicts if verdict.level != "not tested"]
    warned = [verdict for verdict in tested if verdict.level == "warn"]
    if not tested:
        return "Unknown: no condition was tested."
    untested = len(verdicts) - len(tested)
    rest = f"; {several(untested, 'condition')} not tested" if untested else ""
    return f"Nothing failed in {several(len(tested), 'test')}, {several(len(warned), 'warning')}{rest}."
