"""Checks on the networks of a run, with what was left out, the time spent, and verdicts on the numbers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.checks import Check
from holdfast.conduct.jobs import Job, subjects_on_the_way
from holdfast.conduct.judging import EXAMPLES, judge
from holdfast.conduct.ready import Ready, to_device
from holdfast.errors import LedgerError
from holdfast.evaluation.blocks import evaluations
from holdfast.evaluation.points import take_over
from holdfast.evaluation.setting import Block
from holdfast.evaluation.subject import Subject
from holdfast.halving import BatchSize
from holdfast.recipe.plain import describe
from holdfast.recipe.schema import EvaluateRecipe, Seconds
from holdfast.results.ledger import Ledger
from holdfast.runs.directory import Run
from holdfast.traits import Kind, traits_of


@dataclass(frozen=True)
class Checking:
    """Checks under way.

    Args:
        subject: the network.
        block: a piece of the work.
    """

    subject: Subject
    block: Block

    def __str__(self) -> str:
        name, block = f"{self.subject.run} ({self.subject.weights})", self.block
        return f"check {name}  {block.check}  {block.done} of {block.total} images x checks"


def check_all(ready: Ready) -> Iterator[Checking]:
    """Check all networks of a run, in the time that there is for all of them."""
    started, batch_size = time.monotonic(), BatchSize(ready.how.batch_size)
    for subject in ready.subjects:
        yield from check_network(ready, subject, how=_remaining(ready.how, started), batch_size=batch_size)


def check_epochs(ready: Ready, job: Job) -> Iterator[Checking]:
    """Try the checks for it on the weights kept during training, and on those of the last epoch."""
    checks = job.recipe.epoch_checks
    if not checks:
        return
    ready = replace(ready, checks=checks)
    for subject in (*subjects_on_the_way(job, ready.splits), ready.subjects[-1]):
        to_device(subject.model, ready.device)
        yield from check_network(ready, subject, judged=False)


def _remaining(how: EvaluateRecipe, started: float) -> EvaluateRecipe:
    spent = time.monotonic() - started
    return how if how.budget is None else replace(how, budget=Seconds(max(how.budget - spent, 0.0)))


def check_network(
    ready: Ready,
    subject: Subject | None = None,
    *,
    how: EvaluateRecipe | None = None,
    points: Path | None = None,
    batch_size: BatchSize | None = None,
    judged: bool = True,
) -> Iterator[Checking]:
    """Run the checks that the ledger lacks on one network, where it is, and judge the numbers.

    Args:
        ready: the run with its images and checks.
        subject: the network; None for the one that matters most.
        how: instead of the run's.
        points: directory for perturbed images. What the run's ledger holds has left none, so that the checks have a
            ledger of their own there, whose rows are taken over.
        batch_size: shared with other networks, and smaller afterwards if memory ran out.
        judged: whether verdicts are made.
    """
    run, subject, how = ready.run, subject or ready.subjects[0], how or ready.how
    started, fresh = time.monotonic(), False
    not_run: Counter[str] = Counter()
    ledger = run.ledger if points is None else Ledger(points)
    batch_size = batch_size or BatchSize(how.batch_size)
    try:
        for block in evaluations(
            subject, ready.splits.test, ready.checks, how=how, seed=ready.seed, ledger=ledger, gallery=run.gallery,
            points=points, batch_size=batch_size,
        ):  # fmt: skip
            fresh |= block.rows is not None
            not_run.update(block.not_run)
            yield Checking(subject, block)
    finally:
        if points is not None:
            take_over(ledger, run.ledger, subject)
    _record_not_run(run, subject.weights, ready.checks, not_run)
    if not run.ledger.parts():
        raise LedgerError(f"{run.path}: nothing was run within the budget; allow more time")
    if fresh:
        spent = run.info().get("seconds", {})
        run.record(seconds={**spent, "evaluate": spent.get("evaluate", 0.0) + time.monotonic() - started})
    if judged:
        judge(run, subject, ready.splits, ready.checks, ready.seed, batch_size.at_most(EXAMPLES))


def _record_not_run(run: Run, weights: str, checks: Sequence[Check], not_run: Mapping[str, int]) -> None:
    """Note what was left out; of checks that were not requested this time, what was noted before stays."""
    recorded = run.info().get("not_run", {})
    requested = {describe(check, Check)[1]: traits_of(check) for check in checks}
    others = {what: n for what, n in recorded.get(weights, {}).items() if not _names(what, requested)}
    threats = {
        label: {"norm": traits.axis, "eps": traits.size, "minimises": traits.minimises}
        for label, traits in requested.items()
        if traits.kind == Kind.ATTACK and any(_names(what, [label]) for what in not_run)
    }
    if threats:
        run.record(threats={**run.info().get("threats", {}), **threats})
    run.record(not_run={**recorded, weights: {**others, **not_run}})


def _names(what: str, labels: Mapping[str, object] | Sequence[str]) -> bool:
    """Whether it is one of these checks, or a component of one."""
    return any(what == label or what.startswith(f"{label}: ") for label in labels)
