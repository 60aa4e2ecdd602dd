"""Can the numbers be trusted? The verdicts on each run, in words and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.report.runs import RunData
from holdfast.show.numbers import listed, several
from holdfast.show.table import Cell, Table
from holdfast.trust import Verdict, displayed, failed, from_rows

WORDS = {"pass": "passed", "warn": "warning", "fail": "FAILED", "not tested": "not tested"}
HEAT = {"pass": None, "warn": 0.3, "fail": 0.8, "not tested": None}
SEEN_IN = {"model": "without an attack", "attacks": "in the attacks of an audit", "ledger": "in the checks here"}


@dataclass(frozen=True)
class Trust:
    """Whether the numbers of one run mean something.

    Args:
        label: the run.
        sentence: the outcome in one sentence.
        doubtful: whether something failed.
        table: every verdict with its remedy.
    """

    label: str
    sentence: str
    doubtful: bool
    table: Table


def trust(run: RunData) -> Trust:
    """The verdicts on the main weights: those stored, and those that the ledger itself gives."""
    weights = run.weights[0]
    hashes = set(run.main_rows["weights_hash"].drop_nulls())
    kept = [one.verdict for one in run.verdicts if one.weights == weights and one.weights_hash in hashes]
    measured = [verdict for verdict in kept if verdict.evidence != "ledger"]
    verdicts = displayed([*measured, *from_rows(run.main_rows)])
    caption = f"What makes the number of an attack meaningless, tested on {run.label} ({weights} weights)."
    rows = [(verdict.condition, _cells(verdict)) for verdict in verdicts]
    columns = ("Verdict", "Finding", "What to do")
    return Trust(run.label, _sentence(verdicts), bool(failed(verdicts)), Table(caption, "Condition", columns, rows))


def _cells(verdict: Verdict) -> list[Cell]:
    remedy = verdict.remedy or ("nothing" if verdict.level == "pass" else "run `holdfast audit` on the run")
    word = Cell(WORDS[verdict.level], SEEN_IN[verdict.evidence], heat=HEAT[verdict.level], words=True)
    return [word, Cell(verdict.finding, words=True), Cell(remedy, words=True)]


def _sentence(verdicts: Sequence[Verdict]) -> str:
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
