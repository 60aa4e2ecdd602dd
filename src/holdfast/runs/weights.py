"""Networks rebuilt from the weights that a run left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from holdfast.errors import CheckpointError
from holdfast.models import Architecture, load_weights, read_state
from holdfast.models.external import Python
from holdfast.recipe import parse
from holdfast.runs.card import Card, read_card
from holdfast.runs.networks import distrust, new_network


@dataclass(frozen=True)
class Loaded:
    """A model read back from its weights, with what the file says about it."""

    model: nn.Module
    card: Card


def load_model(path: Path | str, *, trust: bool = False, remedy: str = "--trust (in Python, trust=True)") -> Loaded:
    """Rebuild a model from a run's directory (its best weights, else its last) or from one weights file.

    Args:
        path: directory or file.
        trust: call a factory that the file names. A file from somebody else could name any function, so without it
            only holdfast's own networks are rebuilt, inside composites, too.
        remedy: how trust is said where it is asked for, for the message.

    Raises:
        CheckpointError: if the file was not written by holdfast, is damaged or changed, or is not trusted.
    """
    card = read_card(path)
    for architecture in named_networks(card):
        if isinstance(architecture, Python) and not trust:
            raise CheckpointError(f"{card.file}: {distrust(architecture)}, say so with {remedy}")
    shape, classes = card.shape, len(card.classes)
    model = new_network(card.recipe.model, shape, classes, seed=card.recipe.seed, bases=card.bases)
    kinds = {tensor.dtype for tensor in read_state(card.file).values() if tensor.is_floating_point()}
    if len(kinds) == 1:  # the precision it was trained in
        model = model.to(dtype=kinds.pop())
    load_weights(model, card.file)
    card.check(model.state_dict())
    return Loaded(model, card)


def named_networks(card: Card) -> list[Architecture]:
    """The networks that a file names: its own, and those inside a composite."""
    inside = [said["model"] for said in card.bases.values() if "model" in said]
    return [card.recipe.model, *(parse(Architecture, said, where=lambda _: str(card.file)) for said in inside)]
