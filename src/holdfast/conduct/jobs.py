"""Recipes with their directories: claimed before any work starts, and rid of results that no longer apply."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast import files
from holdfast.conduct.ranks import is_first, require_one_machine
from holdfast.errors import LedgerError
from holdfast.evaluation.subject import Subject
from holdfast.models.weights import read_metadata
from holdfast.recipe.schema import Recipe
from holdfast.report.find import positions
from holdfast.runs.code import TrustedCode, resolved
from holdfast.runs.directory import Run
from holdfast.runs.identity import same_outputs
from holdfast.runs.splits import Splits, prepare
from holdfast.runs.weights import Loaded, load_model
from holdfast.trust.store import forget_others


@dataclass(frozen=True)
class Job:
    """A recipe with its directory, and which factories may be called."""

    recipe: Recipe
    run: Run
    trust: TrustedCode = False

    @property
    def name(self) -> str:
        """Of the run."""
        return self.recipe.name

    def load(self, label: str) -> Loaded:
        """The recipe's network with weights of the run; those of another network are refused."""
        return load_model(self.run.weights(label), trust=self.trust, of=self.recipe.model)


def claim_jobs(
    recipes: Sequence[Recipe],
    out: Path,
    hold: Callable[[Run], None],
    *,
    fresh: bool = False,
    trust: TrustedCode = False,
) -> list[Job]:
    """Claim the directories of all runs before any work starts.

    Args:
        recipes: what to run.
        out: directory of all runs.
        hold: locks a run until the work ends.
        fresh: whether to delete what is there.
        trust: which third-party code may run.

    Raises:
        RecipeError: if a recipe names code that is not trusted or cannot be used.
    """
    require_one_machine(recipes)
    ready = [resolved(recipe, f"{recipe.name}: ", trust=trust) for recipe in recipes]
    jobs = [Job(recipe, Run(out / recipe.name), trust) for recipe in ready]
    if not is_first():
        return jobs
    for job in jobs:
        hold(job.run)
    recorded = {} if not jobs else positions(out / jobs[0].name.split("/")[0])
    for job in jobs:
        if fresh:
            job.run.clear()
    for job in jobs:
        job.run.claim(job.recipe)
    _record_positions([job.run for job in jobs], recorded)
    return jobs


def _record_positions(runs: Sequence[Run], recorded: Mapping[Path, int]) -> None:
    """Record where each run stands in its recipe, for reports; some runs of a recipe leave the others their positions.

    Args:
        runs: those that are claimed, in the order of the recipe.
        recorded: the positions of all runs of the recipe before.
    """
    new: Mapping[Path, int] = {run.path: position for position, run in enumerate(runs)}
    if not recorded.keys() <= new.keys():
        last = max(recorded.values())
        new = {path: recorded.get(path, last + 1 + position) for path, position in new.items()}
    for run in runs:
        if run.info().get("position") != new[run.path]:
            run.record(position=new[run.path])


def prepared_images(job: Job, root: Path | None) -> Splits:
    """The images of a run; where it has results of test images that earlier versions drew, with these."""
    return prepare(job.recipe.data, job.recipe.seed, root).as_recorded(job.run)


def subjects_of(job: Job, splits: Splits) -> list[Subject]:
    """All weights of a trained run, the best first; results of weights that are no more are forgotten.

    Raises:
        CheckpointError: if weights are of another network than the recipe's, or there are none.
        RecipeError: if the code of a network has changed, and it no longer computes what it did.
    """
    weights = {label: job.load(label) for label in job.run.require_labels()}
    current = {(label, loaded.card.hash[:12]) for label, loaded in weights.items()} | _kept_on_the_way(job.run)
    _forget_replaced(job.run, current)
    forget_others(job.run.path, current)
    return [_subject(job, label, loaded, splits) for label, loaded in weights.items()]


def subjects_on_the_way(job: Job, splits: Splits) -> Iterator[Subject]:
    """The weights kept during training, one after the other."""
    for label in job.run.epoch_labels():
        yield _subject(job, label, job.load(label), splits)


def _kept_on_the_way(run: Run) -> set[tuple[str, str]]:
    return {(label, read_metadata(run.weights(label)).get("hash", "")[:12]) for label in run.epoch_labels()}


def _subject(job: Job, label: str, loaded: Loaded, splits: Splits) -> Subject:
    """Weights of a run, noted in its facts.

    Raises:
        RecipeError: if they no longer compute what they did.
    """
    outputs = same_outputs(job.run, label, loaded.card.hash, loaded.model, splits)
    now = {"sha256": loaded.card.hash, "epoch": loaded.card.epoch, "outputs": outputs}
    recorded = job.run.info().get("weights", {})
    if recorded.get(label) != now:
        job.run.record(weights={**recorded, label: now})
    return Subject(loaded.model, job.name, label, loaded.card.hash, job.trust, splits.hierarchy)


def _forget_replaced(run: Run, current: set[tuple[str, str]]) -> None:
    """Delete results of weights that training has replaced since they were checked."""
    for part in run.ledger.parts():
        try:
            rows = run.ledger.part(part.stem).head(1).select("weights", "weights_hash").rows()
        except LedgerError:
            continue  # reading the whole ledger says what is wrong with it
        if rows and rows[0] not in current:
            files.remove(part)
            files.remove(run.gallery / f"{part.stem.rpartition('-')[0]}.npz")
