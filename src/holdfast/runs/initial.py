"""Weights to start from: those of another run of the same network, with its head or a fresh one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from holdfast.errors import CheckpointError, RecipeError
from holdfast.models.weights import copy_weights, read_state, read_tensors
from holdfast.runs.card import path_of, read_card
from holdfast.runs.directory import Run


def start_from(
    model: nn.Module, init_from: str, *, seed: int, run: Run, fresh: nn.Module | None = None
) -> dict[str, Any]:
    """Put the weights of another run into a network, normalisation of the images included.

    Args:
        model: the network.
        init_from: directory of the other run (its best weights or, failing that, its last) or one weights file;
            `{seed}` in it stands for the seed.
        seed: of the run that is to start.
        run: that run; what its `run.json` says it started from before must be the same.
        fresh: a part of the network that keeps its weights, such as the head, so that the other run may have had other
            classes.

    Returns:
        Facts about the weights, for `run.json`.

    Raises:
        RecipeError: if there are no such weights, they were changed, or they do not fit.
    """
    path = path_of(init_from, seed)
    try:
        card = read_card(path)
        card.check(read_state(card.file))
        copy_weights(model, _all_but(fresh, model, read_tensors(card.file)), str(card.file))
    except CheckpointError as error:
        raise RecipeError(f"train.init_from: {error}") from error
    before = run.info().get("init_from", {}).get("sha256", card.hash)
    if before != card.hash:
        raise RecipeError(
            f"train.init_from: {card.file} has other weights ({card.hash[:12]}) than those this run started from "
            f"({before[:12]}); start over with --fresh"
        )
    return card.facts(path)


def _all_but(part: nn.Module | None, model: nn.Module, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Stored weights with those of a part of the network as they are; its layers there may have been others."""
    state = dict(stored)
    if part is None:
        return state
    for name in [name for name, module in model.named_modules() if module is part]:
        state = {key: weight for key, weight in state.items() if not key.startswith(f"{name}.")}
        state |= {f"{name}.{key}": weight for key, weight in part.state_dict().items()}
    return state
