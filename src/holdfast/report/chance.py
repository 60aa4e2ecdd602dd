"""Networks at chance level: what the page says of them instead of a summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.report.runs import RunData
from holdfast.report.summary import Verdict
from holdfast.trust import better_than_chance
from holdfast.trust.chance import chance_warnings


def marked(summary: Verdict, run: RunData) -> Verdict:
    """The summary of a run; of a network at chance level it claims nothing but that."""
    chance = better_than_chance(run.main_rows)
    if chance.level != "fail":
        return summary
    lead = f"At chance level: {chance.finding}. Its accuracies are no evidence of robustness."
    return replace(summary, lead=lead, details=(f"What to do: {chance.remedy}.",))


def other_weights(runs: Sequence[RunData]) -> list[str]:
    """A sentence on each set of weights at chance level that has no summary of its own."""
    others = (run.rows.filter(run.rows["weights"] != run.weights[0]) for run in runs)
    return [f"{line}." for rows in others for line in chance_warnings(rows)]
