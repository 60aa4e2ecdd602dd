"""Training one run, with the facts that its `run.json` keeps; and what would fail after it, refused before."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from holdfast.attacks.transfer import Transfer
from holdfast.conduct.jobs import Job
from holdfast.conduct.progress_text import training_in_words
from holdfast.conduct.ranks import is_first
from holdfast.errors import CheckpointError, ModelError, RecipeError
from holdfast.hierarchy import with_hierarchy
from holdfast.lipschitz.margins import margin_growth
from holdfast.recipe import plain
from holdfast.recipe.schema import Recipe
from holdfast.runs.card import path_of, read_card
from holdfast.runs.directory import versions
from holdfast.runs.identity import refuse_others
from holdfast.runs.networks import new_model
from holdfast.runs.outputs import outputs_of
from holdfast.runs.splits import Splits
from holdfast.training.loop import fit
from holdfast.training.records import Epoch, Preparation, Step
from holdfast.types import StoredImages


@dataclass(frozen=True)
class Training:
    """Training under way.

    Args:
        job: of which run.
        record: a step, an epoch, or a piece of what is made before an epoch.
    """

    job: Job
    record: Step | Epoch | Preparation

    def __str__(self) -> str:
        return f"train {self.job.name}  {training_in_words(self.record)}"


@dataclass(frozen=True)
class Trained:
    """A run is trained.

    Args:
        job: which.
        new: whether anything was done.
    """

    job: Job
    new: bool

    def __str__(self) -> str:
        return f"{self.job.name}: {'trained' if self.new else 'was trained before'}"


def validate_before_training(job: Job, splits: Splits) -> None:
    """Refuse before training what would fail after it: files that are not there, networks without a bound, ..."""
    for name, methods in (("checks", job.recipe.checks), ("epoch_checks", job.recipe.epoch_checks)):
        with_hierarchy(methods, splits.hierarchy, f"{job.name}: {name}")
    checks = (*job.recipe.checks, *job.recipe.epoch_checks)
    for check in checks:
        if isinstance(check, StoredImages):
            check.check()
        if isinstance(check, Transfer):
            _validate_source(job, check.source)
    bounded = [(check, norm) for check in checks if (norm := getattr(check, "bound_in", None)) is not None]
    if not bounded or job.run.labels():
        return
    check, norm = bounded[0]
    try:
        fresh = new_model(job.recipe, splits, trust=job.trust).eval()
        margin_growth(fresh, splits.test.batch(slice(0, 1))[0], norm)
    except ModelError as error:
        raise RecipeError(f"{job.name}: checks: {type(check).__name__}: {error}") from error


def _validate_source(job: Job, source: str) -> None:
    try:
        read_card(path_of(source, job.recipe.seed))
    except CheckpointError as error:
        raise RecipeError(f"{job.name}: checks: transfer: source {error}") from error


def train(job: Job, splits: Splits, *, device: torch.device | None = None) -> Iterator[Training | Trained]:
    """Train one run to its end; closing the generator between two records saves the state there.

    Args:
        job: the run.
        splits: its images.
        device: where; None for the recipe's accelerator.
    """
    recipe, run, new = job.recipe, job.run, False
    if is_first():
        refuse_others(run, splits)
        variant = recipe.name.split("/")[1] if recipe.name.count("/") > 1 else None
        run.record(
            name=recipe.name, recipe=recipe.name.split("/")[0], variant=variant, seed=recipe.seed,
            versions=versions(), data=splits.facts(),
        )  # fmt: skip
    started, spent = time.monotonic(), run.info().get("seconds", {}).get("train", 0.0)
    for record in fit(recipe, splits, run, device=device, trust=job.trust):
        new = True
        yield Training(job, record)
    if is_first() and (new or "weights" not in run.info()):  # a network with nothing to train leaves no records
        seconds = {**run.info().get("seconds", {}), "train": spent + time.monotonic() - started}
        run.record(seconds=seconds, weights=_weights(job, splits), model=_model(job))
    yield Trained(job, new)


def _weights(job: Job, splits: Splits) -> dict[str, Any]:
    """The entries of `run.json` on the weights that exist."""
    facts = {}
    for label in ("best", "last"):
        if job.run.weights(label).exists():
            loaded = job.load(label)
            outputs = outputs_of(loaded.model, splits.test).facts()
            facts[label] = {"sha256": loaded.card.hash, "epoch": loaded.card.epoch, "outputs": outputs}
    return facts


def _model(job: Job) -> dict[str, Any]:
    loaded = job.load(job.run.require_labels()[0])
    (name,) = plain(loaded.card.recipe, Recipe)["model"]
    return {"name": name, "parameters": sum(p.numel() for p in loaded.model.parameters())}
