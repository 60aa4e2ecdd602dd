"""What holds and what breaks, in words computed from the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from holdfast.analysis.certified import OF_THE_NETWORK, average_certified_radius
from holdfast.analysis.corruption import corrupted
from holdfast.report.curves import NORMS
from holdfast.report.numbers import count, listed, percent, several, short
from holdfast.report.runs import RunData
from holdfast.report.shares import Share, share_of
from holdfast.report.unfinished import absent
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
    weights = run.weights[0]
    found = {row["check"]: share_of(row) for row in accuracies(run.main_rows).iter_rows(named=True)}
    clean = next((found[check.name] for check in run.main_checks if check.clean), None)
    row = next(worst_case(run.main_rows).iter_rows(named=True), None)
    worst = None if row is None else share_of(row, absent=absent(run, weights))
    seen = "" if row is None else _seen(row["examples"], run.main_rows["example"].n_unique())
    changed = {check.name: found[check.name] for check in run.main_checks if not check.clean and not check.certificate}
    details = (*_details(run, clean, changed), *_corrupted(run), *_certified(run))
    only_graded = clean is not None and not changed and not run.graded.is_empty()
    lead = f"{clean.text} {clean.interval} clean." if clean and only_graded else _lead(clean, worst, seen)
    return Verdict(run.label, lead, details, _figures(clean, worst if changed else None))


def _lead(clean: Share | None, worst: Share | None, seen: str) -> str:
    first = f"{clean.text} clean" if clean else "clean images were not checked"
    if worst is None:
        return f"{first}; no example went through every check, so the worst case is unknown."
    if worst.bound:
        return f"{first}; {worst.text} survive every check{seen}: an upper bound, not everything was run."
    return f"{first}; {worst.text} {worst.interval} survive every check{seen}."


def _seen(examples: int, total: int) -> str:
    return "" if examples == total else f", of the {count(examples)} of {count(total)} examples that all checks saw"


def _details(run: RunData, clean: Share | None, changed: Mapping[str, Share]) -> tuple[str, ...]:
    graded = run.graded.filter(pl.col("weights") == run.weights[0])["check"].n_unique()
    about = f"{run.weights[0]} weights, {several(len(run.main_checks) + graded, 'check')}"
    if not changed and graded:
        return (f"Beside clean images only corruptions by kind and severity were checked. Numbers: {about}.",)
    if not changed:
        certified = any(check.certificate for check in run.main_checks)
        known = (
            "what is known about robustness is the certificates" if certified else "nothing is known about robustness"
        )
        return (f"Only clean images were checked: {known}.", f"Numbers: {about}.")
    lines, checks = [], f"{len(changed)} checks"
    if clean:
        held = [name for name, share in changed.items() if not share.bound and share.value >= clean.value - NEAR]
        lines.append(f"Holds (at most 5 points below clean) {_where(held, checks)}.")
    broken = [name for name, share in changed.items() if share.value < HALF]
    lines.append(f"Breaks (fewer than half right) {_where(broken, checks)}.")
    if waiting := [name for name, share in changed.items() if share.bound]:
        lines.append(f"Unfinished, so that only an upper bound is known, {_where(waiting, checks)}.")
    hardest = min(changed, key=lambda name: changed[name].value)
    so_far = " so far" if waiting else ""
    lines.append(f"Hardest{so_far}: {hardest}, {changed[hardest].text}. Numbers: {about}.")
    return tuple(lines)


def _corrupted(run: RunData) -> tuple[str, ...]:
    """One sentence on each family of corruptions."""
    found = [(one.title, one.mean()) for one in corrupted(run.graded) if one.weights == run.weights[0]]
    return tuple(
        f"Mean error under {title}: {'not complete' if mean is None else percent(mean)}." for title, mean in found
    )


def _certified(run: RunData) -> tuple[str, ...]:
    """One sentence on each certificate."""
    rows = average_certified_radius(run.main_rows).iter_rows(named=True)
    return tuple(
        f"Certified by {row['check']}: average radius {short(row['average'])} in {NORMS.get(row['norm'], row['norm'])}"
        f"{'' if row['method'] in OF_THE_NETWORK else ', of the smoothed network'}."
        for row in rows
    )


def _where(names: Sequence[str], checks: str) -> str:
    return f"in {len(names)} of {checks}: {listed(names)}" if names else "in none of the checks"


def _figures(clean: Share | None, worst: Share | None) -> tuple[tuple[str, str, str], ...]:
    named = [("clean", clean), ("every check", worst)]
    return tuple((name, share.text, share.note) for name, share in named if share)
