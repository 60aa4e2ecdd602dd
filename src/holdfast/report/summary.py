"""What holds and what breaks, in words computed from the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.report.numbers import interval, listed, percent, several
from holdfast.report.runs import RunData
from holdfast.report.tables import share_cell
from holdfast.results import accuracies, worst_case

NEAR = 0.05  # below clean, and still said to hold
HALF = 0.5  # below it, a check is said to break the classifier


@dataclass(frozen=True)
class Verdict:
    """One run in a few lines.

    Args:
        label: the run.
        lead: the one sentence to remember.
        details: what holds and what breaks.
        figures: name, number and interval of the large numbers.
    """

    label: str
    lead: str
    details: tuple[str, ...]
    figures: tuple[tuple[str, str, str], ...]


def verdict(run: RunData) -> Verdict:
    """Sum up one run's main weights."""
    found = {row["check"]: row for row in accuracies(run.main_rows).iter_rows(named=True)}
    clean = next((found[check.name] for check in run.main_checks if check.clean), None)
    worst = next(worst_case(run.main_rows).iter_rows(named=True), None)
    changed = [found[check.name] for check in run.main_checks if not check.clean]
    return Verdict(run.label, _lead(clean, worst), _details(run, clean, changed), _figures(clean, worst, changed))


def _lead(clean: dict[str, Any] | None, worst: dict[str, Any] | None) -> str:
    first = f"{percent(clean['accuracy'])} clean" if clean else "clean images were not checked"
    if worst is None:
        return f"{first}; no example went through every check, so the worst case is unknown."
    return f"{first}; {percent(worst['accuracy'])} {interval(worst['low'], worst['high'])} survive every check."


def _details(run: RunData, clean: dict[str, Any] | None, changed: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    about = f"{run.weights[0]} weights, {several(len(run.main_checks), 'check')}"
    if not changed:
        return ("Only clean images were checked: nothing is known about robustness.", f"Numbers: {about}.")
    lines = []
    if clean:
        held = [row["check"] for row in changed if row["accuracy"] >= clean["accuracy"] - NEAR]
        where = f"in {len(held)} of {len(changed)} checks: {listed(held)}" if held else "in none of the checks"
        lines.append(f"Holds (at most 5 points below clean) {where}.")
    broken = [row["check"] for row in changed if row["accuracy"] < HALF]
    where = f"in {len(broken)} of {len(changed)} checks: {listed(broken)}" if broken else "in none of the checks"
    lines.append(f"Breaks (fewer than half right) {where}.")
    hardest = min(changed, key=lambda row: row["accuracy"])
    lines.append(f"Hardest: {hardest['check']}, {percent(hardest['accuracy'])}. Numbers: {about}.")
    return tuple(lines)


def _figures(
    clean: dict[str, Any] | None, worst: dict[str, Any] | None, changed: Sequence[dict[str, Any]]
) -> tuple[tuple[str, str, str], ...]:
    named = [("clean", clean), ("every check", worst if changed else None)]
    cells = [(name, share_cell(row)) for name, row in named if row]
    return tuple((name, cell.text, cell.note) for name, cell in cells)
