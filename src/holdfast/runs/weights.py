"""Networks of runs: made anew, or rebuilt from the weights that a run left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

from holdfast.data import channel_statistics
from holdfast.errors import CheckpointError, DataError, HoldfastError, RecipeError
from holdfast.models import Architecture, build, load_weights, read_metadata, read_state
from holdfast.models.external import Python
from holdfast.recipe import Recipe, parse, to_yaml
from holdfast.runs.directory import Run, version
from holdfast.runs.splits import Splits


def new_model(recipe: Recipe, splits: Splits) -> nn.Module:
    """The recipe's network with fresh weights, normalising by the training images."""
    if splits.train is None:
        raise DataError(f"data {splits.name}: expected training images; it has a test split only")
    mean, std = channel_statistics(splits.train)
    return new_network(recipe.model, splits.shape, len(splits.classes), seed=recipe.seed, mean=mean, std=std)


def new_network(
    architecture: Architecture, shape: tuple[int, int, int], classes: int, *, seed: int = 0, mean: Any = None,
    std: Any = None,
) -> nn.Module:  # fmt: skip
    """A network with fresh weights; what cannot be built is the recipe's fault, a user's factory included."""
    try:
        return build(architecture, shape, classes, seed=seed, mean=mean, std=std)
    except HoldfastError:
        raise
    except Exception as error:  # a user's factory may raise anything
        if isinstance(error, ValueError) or isinstance(architecture, Python):
            raise RecipeError(f"model: {_line(error)}") from error
        raise


def weights_metadata(recipe: Recipe, splits: Splits, state: Mapping[str, Tensor], epoch: int) -> dict[str, str]:
    """What a weights file says about itself, enough to rebuild the model without its run."""
    return {
        "holdfast": version(),
        "recipe": to_yaml(recipe, Recipe),
        "shape": json.dumps(splits.shape),
        "classes": json.dumps(splits.classes),
        "data": splits.fingerprint,
        "epoch": str(epoch),
        "hash": content_hash(state),
    }


@dataclass(frozen=True)
class Card:
    """What a weights file written by holdfast says about itself.

    Args:
        file: the file.
        recipe: of the run that made it.
        shape: channels, height and width of the images.
        classes: name of each class.
        hash: of the weights' content.
        epoch: after which they were saved.
    """

    file: Path
    recipe: Recipe
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    hash: str
    epoch: int


@dataclass(frozen=True)
class Loaded:
    """A model read back from its weights, with what the file says about it."""

    model: nn.Module
    card: Card


def read_card(path: Path | str) -> Card:
    """What the weights of a run's directory (the best, else the last) or of one file say; nothing is built.

    Raises:
        CheckpointError: if the file was not written by holdfast, or is damaged.
    """
    file = Path(path)
    if file.is_dir():
        there = Run(file).labels()
        if not there:
            raise CheckpointError(f"{file}: expected a run with best.safetensors or last.safetensors; found neither")
        file = Run(file).weights(there[0])
    said = read_metadata(file)
    missing = [key for key in ("recipe", "shape", "classes", "hash") if key not in said]
    if missing:
        raise CheckpointError(
            f"{file}: expected weights written by holdfast; {', '.join(missing)} not stated; "
            "for other networks use --model and --weights"
        )
    try:
        recipe: Recipe = parse(Recipe, yaml.safe_load(said["recipe"]), where=lambda at: f"{file}: {'.'.join(at)}")
        classes, shape = tuple(json.loads(said["classes"])), tuple(json.loads(said["shape"]))
        return Card(file, recipe, shape, classes, said["hash"], int(said.get("epoch", 0)))
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise CheckpointError(f"{file}: expected metadata written by holdfast; {_line(error)}") from None


def load_model(path: Path | str, *, trust: bool = False) -> Loaded:
    """Rebuild a model from a run's directory (its best weights, else its last) or from one weights file.

    Args:
        path: directory or file.
        trust: call a factory that the file names. A file from somebody else could name any function, so without it
            only holdfast's own networks are rebuilt.

    Raises:
        CheckpointError: if the file was not written by holdfast, is damaged or changed, or is not trusted.
    """
    card = read_card(path)
    architecture = card.recipe.model
    if isinstance(architecture, Python) and not trust:
        raise CheckpointError(
            f"{card.file}: its recipe calls {architecture.factory}, which could do anything; "
            "if you trust the file, say so with --trust (in Python, trust=True)"
        )
    model = new_network(architecture, card.shape, len(card.classes), seed=card.recipe.seed)
    kinds = {tensor.dtype for tensor in read_state(card.file).values() if tensor.is_floating_point()}
    if len(kinds) == 1:  # the precision it was trained in
        model = model.to(dtype=kinds.pop())
    load_weights(model, card.file)
    if content_hash(model.state_dict()) != card.hash:
        raise CheckpointError(f"{card.file}: expected content with hash {card.hash[:12]}; the file was changed")
    return Loaded(model, card)


def content_hash(state: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, shapes and bytes of a state dict."""
    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _line(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}".removesuffix(": ")
