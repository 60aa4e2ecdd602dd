"""The networks that an alignment follows, and the one it is selected on: runs that somebody has to load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

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
        earlier = before[number] if number < len(before) else {}
        network, fact = _loaded("train.objective: witness", stated, recipe, splits, earlier, trust=trust)
        networks.append(network)
        facts.append(fact)
    return objective.on(networks), facts


def held_out_of(
    recipe: Recipe, splits: Splits, run: Run, *, trust: TrustedCode = False
) -> tuple[nn.Module | None, Mapping[str, Any]]:
    """The network that the weights of a run are selected on, and facts on it; None and nothing where there is none.

    Args:
        recipe: of the run.
        splits: its images.
        run: what its `run.json` says of the network before must be the same; its witnesses and start are other ones.
        trust: whether factories that its file names may be called.

    Raises:
        RecipeError: if it is not there, was changed, is of other images, or not held out.
    """
    info, stated = run.info(), recipe.train.selection.target
    earlier: Mapping[str, Any] = info.get("held_out", {})
    if stated is None or _is_trained(recipe, run):
        return None, earlier
    network, facts = _loaded("train.selection: target", stated, recipe, splits, earlier, trust=trust)
    used = [("source", info.get("init_from", {})), *(("witness", one) for one in info.get("witnesses", []))]
    for role, one in used:
        if one.get("sha256") == facts["sha256"]:
            raise RecipeError(f"train.selection: target: expected a held-out network; {facts['path']} is the {role}")
    return network, facts


def _loaded(
    what: str, stated: str, recipe: Recipe, splits: Splits, earlier: Mapping[str, Any], *, trust: TrustedCode
) -> tuple[nn.Module, dict[str, Any]]:
    """Another network, frozen, and facts on it; `earlier` are those that it must have, if any."""
    path = path_of(stated, recipe.seed)
    try:
        loaded = load_model(path, trust=trust)
        fits(loaded.card, splits)
    except CheckpointError as error:
        raise RecipeError(f"{what} {path}: {error}") from error
    known_hash = earlier.get("sha256", loaded.card.hash)
    if known_hash != loaded.card.hash:
        raise RecipeError(
            f"{what} {path} has other weights ({loaded.card.hash[:12]}) than those this run was "
            f"{'aligned with' if 'witness' in what else 'selected on'} ({known_hash[:12]}); start over with --fresh"
        )
    return loaded.model.eval().requires_grad_(False), loaded.card.facts(path)


def _is_trained(recipe: Recipe, run: Run) -> bool:
    """Whether a run has the weights of its last epoch."""
    last = run.weights("last")
    return last.exists() and read_metadata(last).get("epoch") == str(recipe.train.epochs)
