"""What holds and what breaks, in words computed from the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from holdfast.questions.question import Needs
from holdfast.report.provenance import doubts
from holdfast.report.runs import RunData
from holdfast.report.same_images import image_doubts
from holdfast.report.shares import Share, share_of
from holdfast.report.worst_cases import WorstCase, worst_cases
from holdfast.results.certified_radii import average_certified_radius
from holdfast.results.corruption_errors import corrupted
from holdfast.results.recorded_checks import fraction
from holdfast.results.summaries import accuracies
from holdfast.results.worst_case import largest
from holdfast.show.items import Card, Item, Note
from holdfast.show.names import norm_sign
from holdfast.show.numbers import SPACE, count, listed, percent, several, short
from holdfast.traits import is_smoothed
from holdfast.trust.chance import better_than_chance, chance_warnings

NEAR = 0.05  # below clean, and still said to be near it
HALF = 0.5


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What holds and what breaks in each run, and what makes its numbers doubtful."""

    title: ClassVar = "Summary"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """A card for each run, then doubts."""
        yield from map(card, runs)
        yield from image_doubts(runs)
        others = (run.rows.filter(run.rows["weights"] != run.weights[0]) for run in runs)
        yield from (_doubt(f"{line}.") for rows in others for line in chance_warnings(rows))
        yield from (_doubt(sentence) for run in runs for sentence in doubts(run))


def _doubt(sentence: str) -> Note:
    return Note(sentence, "doubt", "Check this.")


def card(run: RunData) -> Card:
    """One run's main weights; of a network at chance level it claims nothing but that."""
    shares = {row["check"]: share_of(row) for row in accuracies(run.main_rows).iter_rows(named=True)}
    clean = next((shares[check.name] for check in run.main_checks if check.clean), None)
    cases = worst_cases(run, run.weights[0])
    chance = better_than_chance(run.main_rows)
    if chance.level == "fail":
        lead = f"At chance level: {chance.finding}. Its accuracies are no evidence of robustness."
        return Card(run.label, _figures(run, clean, cases), f"{lead} What to do: {chance.remedy}.")
    fixed = any(check.threat and not check.nearest for check in run.main_checks)
    changed = {
        check.name: shares[check.name]
        for check in run.main_checks
        if not (check.clean or check.certificate or (fixed and check.nearest))  # how far these search says nothing
    }
    details = (*_details(run, clean, changed), *_corrupted(run), *_certified(run))
    return Card(run.label, _figures(run, clean, cases), _lead(clean, cases), details)


def _lead(clean: Share | None, cases: Sequence[WorstCase]) -> str:
    """Clean accuracy, then the worst cases norm by norm."""
    first = f"{clean.text} {clean.interval} clean" if clean else "Clean images were not checked"
    norms = dict.fromkeys(case.threat.axis for case in cases)
    worst = [f"{norm}: " + ", ".join(_at(case) for case in cases if case.threat.axis == norm) for norm in norms]
    notes = {_seen(case): None for case in cases if case.missing}
    bound = any(case.share and case.share.bound for case in cases)
    notes |= {"“At most” is an upper bound: not everything was run": None} if bound else {}
    return ". ".join([first, *([f"Worst case in {'; in '.join(worst)}"] if worst else []), *notes]) + "."


def _at(case: WorstCase) -> str:
    eps = f"eps={fraction(case.threat.size)}"
    return f"{case.share.text} at {eps}" if case.share else f"unknown at {eps} (no example went through all its checks)"


def _seen(case: WorstCase) -> str:
    total = count(case.examples + case.missing)
    return f"Only {count(case.examples)} of {total} examples went through all checks of the {case.title}"


def _details(run: RunData, clean: Share | None, changed: Mapping[str, Share]) -> tuple[str, ...]:
    graded = run.graded.filter(pl.col("weights") == run.weights[0])["check"].n_unique()
    about = f"{run.weights[0]} weights, {several(len(run.main_checks) + graded, 'check')}"
    if not changed and graded:
        return (f"Beside clean images only corruptions by kind and severity were checked. Numbers: {about}.",)
    if not changed:
        certified = any(check.certificate for check in run.main_checks)
        remark = (
            "what is known about robustness is the certificates" if certified else "nothing is known about robustness"
        )
        return (f"Only clean images were checked: {remark}.", f"Numbers: {about}.")
    lines, checks = [], len(changed)
    if clean:
        lines.append(_near(clean, changed))
    below = [name for name, share in changed.items() if share.value < HALF]
    lines.append(f"Below 50{SPACE}% accuracy {_where(below, checks)}.")
    if waiting := [name for name, share in changed.items() if share.bound]:
        lines.append(f"Unfinished, so that only an upper bound is known, {_where(waiting, checks)}.")
    attacks = {check.name for check in run.main_checks if check.attack}
    hardest = [
        _hardest("attack", {name: share for name, share in changed.items() if name in attacks}),
        _hardest("noise", {name: share for name, share in changed.items() if name not in attacks}),
    ]
    lines.append(" ".join([*filter(None, hardest), f"Numbers: {about}."]))
    return tuple(lines)


def _hardest(kind: str, shares: Mapping[str, Share]) -> str:
    """The lowest accuracy among checks of one kind; empty if there are none."""
    if not shares:
        return ""
    name = min(shares, key=lambda name: shares[name].value)
    so_far = " so far" if any(share.bound for share in shares.values()) else ""
    return f"Hardest {kind}{so_far}: {name}, {shares[name].text}."


def _corrupted(run: RunData) -> tuple[str, ...]:
    """One sentence on each family of corruptions."""
    means = [(one.title, one.mean()) for one in corrupted(run.graded) if one.weights == run.weights[0]]
    return tuple(
        f"Mean error under {title}: {'not complete' if mean is None else percent(mean)}." for title, mean in means
    )


def _certified(run: RunData) -> tuple[str, ...]:
    """One sentence on each certificate."""
    rows = average_certified_radius(run.main_rows).iter_rows(named=True)
    return tuple(
        f"Certified by {row['check']}: average radius {short(row['average'])} in {norm_sign(row['norm'])}"
        f"{', of the smoothed network' if is_smoothed(row['certifies']) else ''}."
        for row in rows
    )


def _near(clean: Share, changed: Mapping[str, Share]) -> str:
    """How many checks cost next to nothing."""
    near = [name for name, share in changed.items() if not share.bound and share.value >= clean.value - NEAR]
    if not near:
        return "No check is within 5 points of clean accuracy."
    return f"At most 5 points below clean {_where(near, len(changed))}."


def _where(names: Sequence[str], checks: int) -> str:
    if not names:
        return "in none of the checks"
    return f"in {f'{len(names)} of {checks} checks' if checks > 1 else 'the only check'}: {listed(names)}"


def _figures(run: RunData, clean: Share | None, cases: Sequence[WorstCase]) -> tuple[tuple[str, str, str], ...]:
    """Clean accuracy, and the worst case of each norm at its largest budget.

    Norms in which attacks only minimised a distance have no budget, and are left out unless there is no other.
    """
    fixed = {check.threat.axis for check in run.main_checks if check.threat and not check.nearest}
    chosen = [threat for threat in largest(run.main_rows) if not fixed or threat.axis in fixed]
    named = [("clean", clean), *((case.title, case.share) for case in cases if case.threat in chosen)]
    return tuple((name, share.text, share.note) for name, share in named if share)
