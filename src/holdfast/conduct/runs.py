"""All runs of a recipe, from training to the report; what `holdfast run` draws and `holdfast.run` yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from holdfast.conduct.asking import Asking, ask_about
from holdfast.conduct.blame import third_party_frame
from holdfast.conduct.checking import Checking, check_all, check_epochs
from holdfast.conduct.jobs import Job, claim_jobs, prepared_images, subjects_of
from holdfast.conduct.ranks import is_first
from holdfast.conduct.ready import Ready, default_device, device_named, to_device
from holdfast.conduct.training import Trained, Training, train, validate_before_training
from holdfast.ensembles.of_runs import OfRuns
from holdfast.errors import HoldfastError, LedgerError, ModelError, RecipeError, TrainingError, type_and_line
from holdfast.halving import is_out_of_memory, release_memory
from holdfast.promises import require_check, require_objective, require_protocol
from holdfast.questions.promises import require_question
from holdfast.recipe.foreign import Unresolved
from holdfast.recipe.load import load_recipes, recipes_of
from holdfast.recipe.schema import Recipe
from holdfast.report import write_report
from holdfast.report.find import failed_runs, find_runs
from holdfast.runs.code import code_of
from holdfast.runs.splits import Splits
from holdfast.types import Architecture


@dataclass(frozen=True)
class Prepared:
    """The images of a run are read.

    Args:
        job: which run.
        splits: its images.
    """

    job: Job
    splits: Splits

    def __str__(self) -> str:
        return f"{self.job.name}: {len(self.splits.test)} test images"


@dataclass(frozen=True)
class Finished:
    """A run is trained and, unless it was only to be trained, checked and asked about.

    Args:
        job: which.
    """

    job: Job

    def __str__(self) -> str:
        return f"{self.job.name}: finished"


@dataclass(frozen=True)
class Failed:
    """A run cannot go on, for a reason that other runs of the recipe do not share; they do go on.

    Args:
        job: which.
        reason: why, in one line.
    """

    job: Job
    reason: str

    def __str__(self) -> str:
        return f"{self.job.name} failed: {self.reason}"


@dataclass(frozen=True)
class Reported:
    """The report of all runs is written.

    Args:
        path: of the page.
    """

    path: Path

    def __str__(self) -> str:
        return f"report: {self.path}"


Record = Prepared | Training | Trained | Checking | Asking | Finished | Failed | Reported
"""What a run yields: work under way, and what has ended."""


def run(
    recipe: Path | str | Mapping[str, Any] | Recipe | Sequence[Recipe],
    *,
    out: Path | str = "runs",
    only: Sequence[str] = (),
    data_root: Path | str | None = None,
    fresh: bool = False,
    device: torch.device | str | None = None,
    trust: bool = False,
) -> Iterator[Record]:
    """Train, check and report the runs of a recipe; calling it again resumes, as does `holdfast run`.

    The work is done as you iterate: `for record in holdfast.run("recipe.yaml"): ...`. Closing the
    generator keeps what is done.

    Args:
        recipe: a file, its content as a mapping, in which methods may stand in the place of their names, or one or
            several runs of `load_recipes`.
        out: directory of all runs.
        only: variants to run; empty for all.
        data_root: directory with data sets.
        fresh: whether to delete what is there first.
        device: where to train and check; None for the recipe's accelerator, by default the first GPU or, without
            one, the CPU.
        trust: whether the code that the recipe names may run.

    Yields:
        Work under way, and what has ended.

    Raises:
        HoldfastError: if no run can be finished, or for a reason that concerns all of them.
    """
    recipes, place = _recipes(recipe, only, Path(out)), None if device is None else device_named(device)
    root = None if data_root is None else Path(data_root)
    with ExitStack() as locks:
        code = frozenset(code_of(recipes)) if trust else False
        jobs = claim_jobs(recipes, Path(out), lambda one: locks.enter_context(one.lock()), fresh=fresh, trust=code)
        yield from run_jobs(jobs, Path(out), data_root=root, device=place, several=bool(only))


def _recipes(
    recipe: Path | str | Mapping[str, Any] | Recipe | Sequence[Recipe], only: Sequence[str], out: Path
) -> list[Recipe]:
    """The runs that a recipe describes."""
    if isinstance(only, str):
        raise RecipeError(f"only: expected a list of variants; got the text {only!r}")
    if isinstance(recipe, Path | str):
        return load_recipes(recipe, only=only, out=out)
    if isinstance(recipe, Mapping):
        return recipes_of(_copied(recipe), only=only, out=out)
    recipes = [recipe] if isinstance(recipe, Recipe) else list(recipe)
    if only:
        raise RecipeError("only: expected it beside the file of a recipe or its content; got recipes of single runs")
    if not recipes or not all(isinstance(one, Recipe) for one in recipes):
        raise RecipeError("recipe: expected a file, its content as a mapping, or recipes of load_recipes")
    for one in recipes:
        _require_methods(one)
    if len({one.name.split("/")[0] for one in recipes}) > 1:
        raise RecipeError("recipe: expected runs of one recipe, which share a report; got several names")
    return recipes


def _require_methods(recipe: Recipe) -> None:
    """Refuse objects of Python in a recipe that break the protocol of their place."""
    if not isinstance(recipe.model, Unresolved | OfRuns):
        require_protocol(Architecture, recipe.model, f"{recipe.name}: model")
    for name in ("checks", "epoch_checks"):
        for number, check in enumerate(getattr(recipe, name)):
            require_check(check, f"{recipe.name}: {name}[{number}]")
    for number, question in enumerate(recipe.analyses):
        if not isinstance(question, Unresolved):
            require_question(question, f"{recipe.name}: analyses[{number}]")
    if not isinstance(recipe.train.objective, Unresolved):
        require_objective(recipe.train.objective, f"{recipe.name}: train.objective")


def _copied(value: Any) -> Any:
    """Mappings and lists copied, methods in them as they are."""
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list | tuple) else value


def run_jobs(
    jobs: Sequence[Job],
    out: Path,
    *,
    data_root: Path | None = None,
    device: torch.device | None = None,
    several: bool = False,
) -> Iterator[Record]:
    """Train, check, ask and report jobs that are claimed.

    Args:
        jobs: the runs of one recipe.
        out: directory of all runs.
        data_root: directory with data sets.
        device: where; see `run`.
        several: whether the report shows the recipe's other runs, too.
    """
    yield from _each(jobs, data_root, lambda job, splits: _run_job(job, splits, device))
    if not is_first():
        return
    everything = out / jobs[0].name.split("/")[0]
    finished = [job.run.path for job in jobs if job.run.ledger.parts()]
    shown = find_runs([everything]) if several else finished
    page = write_report(shown, everything / "report.html", failed=failed_runs([everything]))
    yield Reported(page)


def train_jobs(
    jobs: Sequence[Job], *, data_root: Path | None = None, device: torch.device | None = None
) -> Iterator[Record]:
    """Train jobs that are claimed, and no more.

    Args:
        jobs: the runs of one recipe.
        data_root: directory with data sets.
        device: where; see `run`.
    """
    yield from _each(jobs, data_root, lambda job, splits: _train_job(job, splits, device))


def _each(
    jobs: Sequence[Job], data_root: Path | None, work: Callable[[Job, Splits], Iterator[Record]]
) -> Iterator[Record]:
    """The work on every job; one that fails for a reason of its own does not stop the others.

    Raises:
        TrainingError: if all of several fail.
    """
    failed: list[str] = []
    for job in jobs:
        splits = prepared_images(job, data_root)
        yield Prepared(job, splits)
        reason = None
        try:
            yield from work(job, splits)
        except Exception as error:
            if len(jobs) == 1 or not _concerns_one_run(error):
                raise
            reason = _reason(error, job.name)
        if reason is not None:  # out here, where the error keeps no tensors any more
            release_memory()
            failed.append(f"{job.name}: {reason}")
        if is_first():
            _note(job, reason)
        if reason is not None:
            yield Failed(job, reason)
    if is_first() and len(failed) == len(jobs):
        raise TrainingError(f"all {len(jobs)} runs failed; the first: {failed[0]}")


def _note(job: Job, reason: str | None) -> None:
    """Write down why a run failed, or that it no longer does."""
    if reason is not None:
        job.run.record(failed=reason)
    elif "failed" in job.run.info():
        job.run.forget("failed")


def _train_job(job: Job, splits: Splits, device: torch.device | None) -> Iterator[Record]:
    yield from train(job, splits, device=device)
    yield Finished(job)


def _run_job(job: Job, splits: Splits, device: torch.device | None) -> Iterator[Record]:
    validate_before_training(job, splits)
    yield from train(job, splits, device=device)
    if not is_first():
        return
    recipe, place = job.recipe, device or default_device()
    ready = Ready(job.run, subjects_of(job, splits), splits, recipe.checks, recipe.evaluate, recipe.seed, place)
    for subject in ready.subjects:
        to_device(subject.model, place)
    yield from check_all(ready)
    yield from check_epochs(ready, job)
    for question in recipe.analyses:
        yield from ask_about(ready, question, trust=job.trust)
    yield Finished(job)


def _concerns_one_run(error: Exception) -> bool:
    """Whether other runs of the recipe may still do."""
    if isinstance(error, TrainingError | ModelError | RecipeError | LedgerError) or is_out_of_memory(error):
        return True
    return not isinstance(error, HoldfastError) and third_party_frame(error) is not None


def _reason(error: Exception, run: str) -> str:
    """Why a run failed, in one line that does not name it: whoever shows the line does."""
    line = " ".join(str(error).split()).removeprefix(f"{run}: ") or type(error).__name__
    if isinstance(error, HoldfastError):
        return line
    if is_out_of_memory(error):
        return f"out of memory ({line})"
    frame = third_party_frame(error)
    return f"{type_and_line(error)}, in {frame.name} ({frame.filename}:{frame.lineno})" if frame else line
