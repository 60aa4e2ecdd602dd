"""The networks that an alignment follows: runs that somebody has to load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import CheckpointError, RecipeError
from holdfast.models.weights import read_metadata
from holdfast.objectives.alignment import Align
from holdfast.objectives.standard import Standard
from holdfast.recipe.schema import Recipe
from holdfast.runs.card import path_of
from holdfast.runs.code import TrustedCode
from holdfast.runs.directory import Run
from holdfast.runs.networks import fits
from holdfast.runs.splits import Splits
from holdfast.runs.weights import load_model
from holdfast.types import Objective

Facts = Sequence[Mapping[str, Any]]
"""Of each witness its path, name and hash, for `run.json` and the weights file."""


def with_witnesses(recipe: Recipe, splits: Splits, run: Run, *, trust: TrustedCode = False) -> tuple[Objective, Facts]:
    """The objective of a recipe ready to train with, and facts on the witnesses; others stay as they are.

    Args:
        recipe: of the run.
        splits: its images.
        run: what its `run.json` says of witnesses before must be the same. Once it is trained, they may be gone.
        trust: whether factories that their files name may be called.

    Raises:
        RecipeError: if a witness is not there, was changed, or is of other images.
    """
    objective: object = recipe.train.objective
    if not isinstance(objective, Align):
        return recipe.train.objective, []
    before: Facts = run.info().get("witnesses", [])
    if _is_trained(recipe, run):
        return Standard(), before
    networks, facts = [], []
    for number, stated in enumerate(objective.witnesses):
        path = path_of(stated, recipe.seed)
        try:
            loaded = load_model(path, trust=trust)
            fits(loaded.card, splits)
        except CheckpointError as error:
            raise RecipeError(f"train.objective: witness {path}: {error}") from error
        known_hash = before[number]["sha256"] if number < len(before) else loaded.card.hash
        if known_hash != loaded.card.hash:
            raise RecipeError(
                f"train.objective: witness {path} has other weights ({loaded.card.hash[:12]}) than those this run was "
                f"aligned with ({known_hash[:12]}); start over with --fresh"
            )
        networks.append(loaded.model.eval().requires_grad_(False))
        facts.append(loaded.card.facts(path))
    return objective.on(networks), facts


def _is_trained(recipe: Recipe, run: Run) -> bool:
    """Whether a run has the weights of its last epoch."""
    last = run.weights("last")
    return last.exists() and read_metadata(last).get("epoch") == str(recipe.train.epochs)
