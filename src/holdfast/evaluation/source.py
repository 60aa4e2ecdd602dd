"""The networks that transferred attacks start from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast import files
from holdfast.attacks.transfer import Transfer
from holdfast.checks import Check
from holdfast.data.dataset import Split
from holdfast.errors import CheckpointError, ModelError, RecipeError
from holdfast.evaluation.subject import Subject, place, try_out
from holdfast.results.ledger import Ledger
from holdfast.runs.card import path_of
from holdfast.runs.code import calls_of, named_networks
from holdfast.runs.outputs import outputs_of
from holdfast.runs.weights import Loaded, load_model


def with_source(check: Check, subject: Subject, split: Split, seed: int) -> tuple[Check, tuple[str, ...]]:
    """The check ready to run, and what tells the network it brings along; a check without any stays as it is.

    Raises:
        RecipeError: if the weights are not there, or the network does not fit the images.
    """
    if not isinstance(check, Transfer):
        return check, ()
    path = path_of(check.source, seed)
    try:
        loaded = load_model(path, trust=subject.trust)
        try_out(loaded.model, split)
    except (CheckpointError, ModelError) as error:
        raise RecipeError(f"checks: transfer: source {path}: {error}") from error
    source: Any = loaded.model.eval().requires_grad_(False).to(place(subject.model))
    made = (outputs_of(loaded.model, split).digest(),) if _by_factory(loaded) else ()
    return check.on(source), (loaded.card.hash, *made)


def _by_factory(loaded: Loaded) -> bool:
    """Whether code that holdfast does not know makes the network or a part of it, and may have changed."""
    return any(calls_of(architecture) for architecture in named_networks(loaded.card))


def forget_others(ledger: Ledger, gallery: Path | None, key: str, label: str, weights: str) -> None:
    """Delete results of a check whose source has been trained anew since: the label is the same, the key is not.

    Args:
        ledger: where they are.
        gallery: where their images are.
        key: of the check as it is now.
        label: of the check.
        weights: of the network in question.
    """
    for part in ledger.parts():
        other = part.stem.rpartition("-")[0]
        if other == key or ledger.part(part.stem).head(1).select("check", "weights").rows() != [(label, weights)]:
            continue
        files.remove(part)
        if gallery is not None:
            files.remove(gallery / f"{other}.npz")
