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
from holdfast.conduct import Job, Training, default_device, subjects_of, to_device, train
from holdfast.errors import HoldfastError, ModelError, RecipeError, TrainingError, unknown
from holdfast.evaluation import evaluations
from holdfast.recipe import Recipe, describe
from holdfast.results import Ledger
from holdfast.runs import Run, Splits, TrustedCode, calls_in, prepare, resolved
from holdfast.search.plan import Plan
from holdfast.search.schema import Goal, SearchRecipe
from holdfast.search.values import summary
from holdfast.training import Epoch, Step
from holdfast.training.records import read

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


class Watch:
    """What the epochs of a trial say, for the pruner and for its record.

    Args:
        trial: of the study.
        plan: of the search.
        recipe: of the trial.
        device: where it is trained and measured; None for the recipe's.
    """

    def __init__(self, trial: Trial, plan: Plan, recipe: Recipe, device: torch.device | None = None) -> None:
        self.trial, self.plan, self.recipe, self.device = trial, plan, recipe, device
        self._epochs: dict[int, Mapping[str, Any]] = {}
        self._scored_epochs = set(trial.study.trials[trial.number].intermediate_values) if self._prunes else set()

    @property
    def _prunes(self) -> bool:
        return self.plan.settings.pruning.method != "none"

    @property
    def seconds(self) -> float:
        """Of training, over all visits."""
        return float(sum(epoch["seconds"] for epoch in self._epochs.values()))

    @property
    def scores(self) -> dict[str, float]:
        """Validation scores of the weights that are kept."""
        kept = [epoch["validation"] for epoch in self._epochs.values() if epoch["best"] and epoch["validation"]]
        return dict(kept[-1]) if kept else {}

    @property
    def note(self) -> str:
        """The latest score, for people."""
        goal = self.plan.settings.objective[0]
        name = self._judged.name if goal.checks else goal.score
        values = [e["validation"][name] for e in self._epochs.values() if e["validation"] and name in e["validation"]]
        return f"{name.replace('_', ' ')} {values[-1]:.4g}" if values else ""

    @property
    def _judged(self) -> Judged:
        return judged(self.plan.settings, self.recipe)

    def __call__(self, epoch: Mapping[str, Any]) -> None:
        """Take note of an epoch, again or for the first time."""
        self._epochs[epoch["epoch"]] = epoch
        step = epoch["epoch"] - 1  # pruners count from 0
        if not self._prunes or epoch["validation"] is None or step in self._scored_epochs:
            return
        self.trial.report(self._judged.sign * score(epoch["validation"], self._judged.name), step)
        self._scored_epochs.add(step)

    def hopeless(self) -> bool:
        """Whether the pruner gives the trial up; a trial that is trained to the end is not."""
        last = max(self._epochs, default=0)
        judged = self._prunes and last - 1 in self._scored_epochs
        return judged and last < self.recipe.train.epochs and self.trial.should_prune()

    def record(self, values: Sequence[float]) -> None:
        """Write down, in the study, what a report wants to know."""
        goals = self.plan.settings.objective
        facts = {
            "seconds": self.seconds,
            "epochs": len(self._epochs),
            "planned": self.recipe.train.epochs,
            "scores": {**self.scores, **{g.label: v for g, v in zip(goals, values, strict=False) if g.checks}},
        }
        for name, value in facts.items():
            self.trial.set_user_attr(name, value)


@dataclass(frozen=True)
class Judged:
    """What the pruner looks at.

    Args:
        name: of the validation score.
        sign: -1 where it is better in the other direction than the goal, which is the only one that the pruner knows.
    """

    name: str
    sign: int


def judged(settings: SearchRecipe, recipe: Recipe) -> Judged:
    """What the pruner looks at in a search of this recipe."""
    goal = settings.objective[0]
    name = settings.pruning.score or (recipe.train.selection.metric if goal.checks else goal.score)
    alike = name == goal.score or Goal(score=name).maximize == goal.maximize
    return Judged(name, 1 if alike else -1)


def score(scores: Mapping[str, float], name: str) -> float:
    """A validation score by name.

    Raises:
        RecipeError: there is none of this name.
    """
    if name not in scores:
        raise RecipeError(f"search.objective: score: {unknown(name, scores)}")
    return float(scores[name])


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
