"""One trial: a run of its own that is trained, judged after every epoch and measured at the end."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from optuna.trial import Trial

from holdfast.checks import Check
from holdfast.conduct.jobs import Job, subjects_of
from holdfast.conduct.ready import default_device, to_device
from holdfast.conduct.training import Training, train
from holdfast.errors import HoldfastError, ModelError, RecipeError, TrainingError
from holdfast.evaluation.blocks import evaluations
from holdfast.recipe.plain import describe
from holdfast.recipe.schema import Recipe
from holdfast.results.ledger import Ledger
from holdfast.runs.code import TrustedCode, calls_in, resolved
from holdfast.runs.directory import Run
from holdfast.runs.splits import Splits, prepare
from holdfast.search.plan import Plan
from holdfast.search.schema import Goal
from holdfast.search.values import summary
from holdfast.search.watch import Watch, score
from holdfast.training.records import Epoch, Step, read

MENDABLE = (TrainingError, ModelError, torch.OutOfMemoryError)
"""What values of one trial may cause and those of the next may not; anything else stops the search."""


@dataclass(frozen=True)
class Busy:
    """Work under way.

    Args:
        trial: its number; None while a worker waits for the trials of others.
        done: steps of training, or examples checked.
        total: what `done` will be.
        note: for people.
    """

    trial: int | None
    done: int
    total: int
    note: str


@dataclass(frozen=True)
class Ended:
    """A trial that is over.

    Args:
        trial: its number.
        state: how it ended.
        values: of the goals, if it is complete.
        error: why it failed.
    """

    trial: int
    state: Literal["complete", "pruned", "failed"]
    values: tuple[float, ...] = ()
    error: str | None = None


def run_trial(
    trial: Trial,
    plan: Plan,
    drawn: Mapping[str, Any],
    out: Path,
    images: Images,
    *,
    device: torch.device | None = None,
    trust: TrustedCode = False,
) -> Generator[Busy, None, Ended]:
    """Train and measure one trial, or go on with it; closing the generator keeps what is done.

    Args:
        trial: in Optuna's study; told nothing but what pruning needs to know, and facts about the run.
        plan: of the search.
        drawn: its values.
        out: directory of all runs.
        images: of the search.
        device: where to train and measure; None for the recipe's.
        trust: which factories that the recipe names may be called.

    Raises:
        HoldfastError: what another trial would run into as well.
    """
    try:
        drawn_recipe = plan.trial(drawn, trial.number)
        trust = trust_for(drawn_recipe, plan, trust)
        recipe: Recipe = resolved(drawn_recipe, trust=trust)
    except RecipeError as problem:  # values that are allowed one by one and not together
        return Ended(trial.number, "failed", error=str(problem))
    run = Run(out / recipe.name)
    splits = images(recipe).as_recorded(run)
    with run.lock():
        run.claim(recipe)
        decoded = {path: plan.ranges[path].decode(value) for path, value in drawn.items()}
        run.record(search={"trial": trial.number, "values": decoded})
        watch, job = Watch(trial, plan, recipe, device), Job(recipe, run, trust)
        values: tuple[float, ...] = ()
        error = None
        try:
            pruned = yield from _trained(watch, job, splits)
            if not pruned:
                values = yield from _measured(watch, job, splits)
        except MENDABLE as problem:
            pruned, error = False, " ".join(str(problem).split()) or type(problem).__name__
        if error is None and not all(map(math.isfinite, values)):
            error = f"expected finite values; got {', '.join(map(str, values))}"
        watch.record(values)
        run.record(seconds={**run.info().get("seconds", {}), "train": watch.seconds})
        if error is not None:
            return Ended(trial.number, "failed", error=error)
        return Ended(trial.number, "pruned" if pruned else "complete", values)


def trust_for(recipe: Recipe, plan: Plan, trust: TrustedCode) -> TrustedCode:
    """TrustedCode that also covers the options and fields drawn for code that the search itself names and may run."""
    if isinstance(trust, bool):
        return trust
    allowed = {_place(call) for end in plan.ends() for call in calls_in(end) if call in trust}
    return trust | {call for call in calls_in(recipe) if _place(call) in allowed}


def _place(call: str) -> str:
    return call.partition(" ")[0]


class Images:
    """The images of a search, read again only where a trial changes what is read.

    Args:
        root: directory of data sets.
    """

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._last: tuple[Any, Splits] | None = None

    def __call__(self, recipe: Recipe) -> Splits:
        """The images of a trial."""
        key = (replace(recipe.data, augment=()), recipe.seed)
        if self._last is None or self._last[0] != key:
            self._last = (key, prepare(recipe.data, recipe.seed, self._root))
        return self._last[1]


def _trained(watch: Watch, job: Job, splits: Splits) -> Generator[Busy, None, bool]:
    """Train to the end, or until the pruner gives the trial up; returns whether it did."""
    for epoch in read(job.run.metrics):  # a kill may have come before the study was told
        watch(epoch)
    if watch.hopeless():
        return True
    work = train(job, splits, device=watch.device)
    try:
        for record in (item.record for item in work if isinstance(item, Training)):
            if isinstance(record, Epoch):
                watch(asdict(record))
                if watch.hopeless():
                    return True
            else:
                note = f"epoch {record.epoch}  {watch.note}"
                done = record.step if isinstance(record, Step) else record.done
                yield Busy(watch.trial.number, done, record.total, note)
    finally:
        work.close()  # type: ignore[attr-defined]
    return False


def _measured(watch: Watch, job: Job, splits: Splits) -> Generator[Busy, None, tuple[float, ...]]:
    """The values of all goals."""
    goals = watch.plan.settings.objective
    for split in ("validation", "test"):
        checks = _listed([goal for goal in goals if goal.split == split])
        if checks:
            yield from _checked(watch, job, splits, split, checks)
    return tuple(
        summary(_ledger(job.run, goal.split).read(), goal) if goal.checks else score(watch.scores, goal.score)
        for goal in goals
    )


def _listed(goals: Sequence[Goal]) -> list[Check]:
    """The checks of goals, each once."""
    return list({describe(check, Check)[1]: check for goal in goals for check in goal.checks}.values())


def _checked(watch: Watch, job: Job, splits: Splits, split: str, checks: Sequence[Check]) -> Iterator[Busy]:
    """Run checks on the weights that are kept, those of the ledger left out."""
    recipe, subject = job.recipe, subjects_of(job, splits)[0]
    to_device(subject.model, watch.device or default_device())
    images = splits.test if split == "test" else splits.validation
    if images is None:
        raise HoldfastError(f"{recipe.name}: expected validation images; the recipe holds none out")
    how = replace(recipe.evaluate, budget=None, gallery=0)  # half a check has no value
    for block in evaluations(subject, images, checks, how=how, seed=recipe.seed, ledger=_ledger(job.run, split)):
        yield Busy(watch.trial.number, block.done, block.total, block.check)


def _ledger(run: Run, split: str) -> Ledger:
    """Rows on test images are the run's own; those on validation images must not be taken for them."""
    return run.ledger if split == "test" else Ledger(run.path / "validation")
