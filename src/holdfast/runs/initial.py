"""Weights to start from: those of another run of the same network."""

from __future__ import annotations

from typing import Any

from torch import nn

from holdfast.errors import CheckpointError, RecipeError
from holdfast.models import load_weights, read_state
from holdfast.runs.card import path_of, read_card
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
    path = path_of(init_from, seed)
    try:
        card = read_card(path)
        card.check(read_state(card.file))
        load_weights(model, card.file)
    except CheckpointError as error:
        raise RecipeError(f"train.init_from: {error}") from error
    before = run.info().get("init_from", {}).get("sha256", card.hash)
    if before != card.hash:
        raise RecipeError(
            f"train.init_from: {card.file} has other weights ({card.hash[:12]}) than those this run started from "
            f"({before[:12]}); start over with --fresh"
        )
    return card.facts(path)
