"""Networks rebuilt from the weights that a run left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from holdfast.ensembles.of_runs import CompositeOfRuns
from holdfast.errors import CheckpointError
from holdfast.hierarchy import with_hierarchy
from holdfast.models.weights import copy_weights, read_tensors, require_fitting
from holdfast.recipe import plain
from holdfast.recipe.foreign import Unresolved
from holdfast.runs.card import Card, read_card
from holdfast.runs.code import TrustedCode, named_networks, require_trust, resolved
from holdfast.runs.networks import new_network
from holdfast.types import Architecture


@dataclass(frozen=True)
class Loaded:
    """A model read back from its weights, with what the file says about it."""

    model: nn.Module
    card: Card


def load_model(path: Path | str, *, trust: TrustedCode = False, of: Architecture | None = None) -> Loaded:
    """Rebuild a model from a run's directory (its best weights or, failing that, its last) or from one weights file.

    Args:
        path: directory or file.
        trust: call a factory that the file names. A file from somebody else could name any function, so without it
            only holdfast's own networks are rebuilt, inside composites, too.
        of: the network that the file must be of, as the user's recipe has it; None for any.

    Raises:
        CheckpointError: if the file was not written by holdfast, is damaged or changed, is of another network, or is
            not trusted.
    """
    card = read_card(path)
    state = read_tensors(card.file)
    stated = _architecture(card, of, trust=trust)
    if of is not None and _unfitted(stated) != _unfitted(of):
        raise CheckpointError(
            f"{card.file}: expected weights of the network of the recipe, got those of another; "
            "restore the file, or start over with --fresh"
        )
    for architecture in (stated, *named_networks(card)[1:]):
        require_trust(architecture, str(card.file), trust=trust, error=CheckpointError)
    bound = with_hierarchy(stated, card.hierarchy, str(card.file))
    model = new_network(
        bound, card.shape, len(card.classes), seed=card.recipe.seed, bases=card.bases, trust=trust,
        fitting=lambda plan: require_fitting(plan, state, str(card.file)),
    )  # fmt: skip
    kinds = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()}
    if len(kinds) == 1:  # the precision it was trained in
        model = model.to(dtype=kinds.pop())
    copy_weights(model, state, str(card.file))
    card.check(model.state_dict())
    return Loaded(model, card)


def _architecture(card: Card, of: Architecture | None, *, trust: TrustedCode) -> Architecture:
    """The network of a file; `of` itself where the file names its import path, so that nothing is imported again."""
    model: object = card.recipe.model
    if of is not None and isinstance(model, Unresolved) and plain(of, Architecture) == model.stated:
        return of
    read: Architecture = resolved(model, f"{card.file}: model", trust=trust, error=CheckpointError)
    return read


def _unfitted(architecture: Architecture) -> object:
    """What tells a network from others: all its fields, of a composite but for those that a fit replaces."""
    composite: object = architecture
    if isinstance(composite, CompositeOfRuns) and composite.fit is not None:
        return composite.standard, composite.robust, composite.neighbours, composite.fit
    return composite
