"""Verdicts on the numbers of runs, for people and machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.runs.directory import Run
    from holdfast.trust.verdict import Verdict


def records(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The verdicts of runs as plain records."""
    from holdfast.trust.store import flat, read_verdicts

    return [flat(one) for run in runs for one in read_verdicts(run.path)]


def failures(runs: Sequence[Run]) -> list[str]:
    """One line for each condition that failed, each once; networks at chance level have lines of their own."""
    from holdfast.trust.store import read_verdicts
    from holdfast.trust.verdict import displayed, failed

    groups: dict[tuple[str, str], list[Verdict]] = {}
    for one in (one for run in runs for one in read_verdicts(run.path)):
        weights = f"{one.weights}, groups of level '{one.view}'" if one.view else one.weights
        groups.setdefault((one.run, weights), []).append(one.verdict)
    return [
        f"not to be trusted: {run} ({weights}): {verdict.flag}: {verdict.finding}; {verdict.remedy}"
        for (run, weights), verdicts in groups.items()
        for verdict in failed(displayed(verdicts))
        if verdict.flag != "chance"
    ]


def outcome(verdicts: Sequence[Verdict]) -> str:
    """What verdicts come to, in one line that claims no more than was tested."""
    from holdfast.trust.verdict import failed

    if bad := failed(verdicts):
        return f"not to be trusted: {', '.join(dict.fromkeys(each.flag for each in bad))}"
    tested = {each.flag for each in verdicts if each.level != "not tested"}
    untested = [flag for flag in dict.fromkeys(each.flag for each in verdicts) if flag not in tested]
    rest = f"; not tested: {', '.join(untested)}" if untested else ""
    return f"No problems found in {len(tested)} conditions{rest}"
