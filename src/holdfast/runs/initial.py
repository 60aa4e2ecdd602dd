"""Weights to start from: those of another run of the same network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from holdfast.errors import CheckpointError, RecipeError
from holdfast.models import load_weights, read_state
from holdfast.runs.card import content_hash, read_card
from holdfast.runs.directory import Run


def start_from(model: nn.Module, init_from: str, *, seed: int, run: Run) -> dict[str, Any]:
    """Put the weights of another run into a network, normalisation of the images included.

    Args:
        model: the network.
        init_from: directory of the other run (its best weights, else its last) or one weights file; `{seed}` in it
            stands for the seed.
        seed: of the run that is to start.
        run: that run; what its `run.json` says it started from before must be the same.

    Returns:
        Facts about the weights, for `run.json`.

    Raises:
        RecipeError: if there are no such weights, they were changed, or they do not fit.
    """
    path = Path(init_from.replace("{seed}", str(seed)))
    try:
        card = read_card(path)
        if content_hash(read_state(card.file)) != card.hash:
            raise CheckpointError(f"{card.file}: expected content with hash {card.hash[:12]}; the file was changed")
        load_weights(model, card.file)
    except CheckpointError as error:
        raise RecipeError(f"train.init_from: {error}") from error
    before = run.info().get("init_from", {}).get("sha256", card.hash)
    if before != card.hash:
        raise RecipeError(
            f"train.init_from: {card.file} has other weights ({card.hash[:12]}) than those this run started from "
            f"({before[:12]}); start over with --fresh"
        )
    said = {"path": str(path), "name": card.recipe.name, "weights": card.file.stem}
    return {**said, "epoch": card.epoch, "sha256": card.hash}
