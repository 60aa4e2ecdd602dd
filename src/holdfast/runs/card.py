"""What a weights file says about itself."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from holdfast.budget import require_budget
from holdfast.errors import CheckpointError
from holdfast.families import COMPOSITES
from holdfast.hierarchy import Hierarchy, hierarchy_of_facts
from holdfast.json_text import parse_json
from holdfast.models.weights import read_metadata
from holdfast.recipe import plain
from holdfast.recipe.plain import as_yaml, to_yaml
from holdfast.recipe.schema import Recipe
from holdfast.recipe.stored import parse_stored
from holdfast.records import parse_record
from holdfast.results.ledger import MOST_CLASSES
from holdfast.runs.directory import Run, version
from holdfast.runs.splits import Splits
from holdfast.types import Architecture
from holdfast.yaml_text import load_yaml

MOST_CHANNELS = 4096
"""Of an image."""

STATED = ("classes", "shape", "bases", "hierarchy")
"""Metadata in JSON."""


def weights_metadata(
    recipe: Recipe | None, splits: Splits, state: Mapping[str, Tensor], epoch: int,
    bases: Mapping[str, Any] | None = None, origins: Mapping[str, Any] | None = None,
) -> dict[str, str]:  # fmt: skip
    """The metadata of a weights file, enough to rebuild the model without its run.

    Args:
        recipe: of the run; None for a network that was given as an object, which no file can describe.
        splits: its images.
        state: the weights.
        epoch: after which they are saved.
        bases: of a composite, what is known of the networks inside.
        origins: runs that the weights come from: where training started, the witnesses of an alignment, and the network
            that they were selected on (`held_out`).
    """
    extra = {name: json.dumps(facts) for name, facts in (("bases", bases), ("origins", origins)) if facts}
    if splits.hierarchy is not None:
        extra["hierarchy"] = json.dumps(splits.hierarchy.facts())
    made = {"trained": "holdfast.fit"} if recipe is None else {"recipe": to_yaml(recipe, Recipe)}
    model = None if recipe is None else plain(recipe.model, Architecture)
    return {
        "holdfast": version(),
        **made,
        "shape": json.dumps(splits.shape),
        "classes": json.dumps(splits.classes),
        "data": splits.fingerprint,
        "epoch": str(epoch),
        "hash": network_hash(model, state),
        **extra,
    }


@dataclass(frozen=True)
class _Origins:
    """What a file's metadata says of the runs that its weights come from."""

    init_from: dict[str, Any] = field(default_factory=dict)
    witnesses: list[dict[str, Any]] = field(default_factory=list)
    held_out: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one in (*filter(None, (self.init_from, self.held_out)), *self.witnesses):
            if not isinstance(one.get("name"), str) or not isinstance(one.get("sha256"), str):
                raise ValueError(f"origins: expected name and sha256 of each run; got {str(one)[:60]}")


@dataclass(frozen=True)
class _Images:
    """What a file's metadata says of images, their classes and of networks inside."""

    shape: list[int]
    classes: list[str]
    bases: dict[str, dict[str, Any]] = field(default_factory=dict)
    hierarchy: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if len(self.shape) != 3 or min(self.shape) < 1 or self.shape[0] > MOST_CHANNELS:
            raise ValueError(f"shape: expected channels, height and width; got {str(self.shape)[:60]}")
        if not 0 < len(self.classes) <= MOST_CLASSES:
            raise ValueError(f"classes: expected 1 to {MOST_CLASSES} names; got {len(self.classes)}")


@dataclass(frozen=True)
class Card:
    """What a weights file written by holdfast says about itself.

    Args:
        file: the file.
        recipe: of the run that made it.
        shape: channels, height and width of the images.
        classes: name of each class.
        hash: of the weights' content; see `network_hash`.
        epoch: after which they were saved.
        bases: of a composite, what it says of the networks inside; empty for others.
        model: the network as it is recorded, perhaps by an earlier version with fewer fields.
        origins: runs that the weights come from, with their hashes: `init_from`, the `witnesses` of an alignment, and
            `held_out`, the network that the best weights were selected on.
        hierarchy: of the classes; None for none.
    """

    file: Path
    recipe: Recipe
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    hash: str
    epoch: int
    bases: Mapping[str, Any] = field(default_factory=dict)
    model: Any = None
    origins: Mapping[str, Any] = field(default_factory=dict)
    hierarchy: Hierarchy | None = None

    def check(self, state: Mapping[str, Tensor]) -> None:
        """Refuse weights that are not those that the file describes.

        Raises:
            CheckpointError: if they were changed.
        """
        if network_hash(self.model, state) != self.hash:
            raise CheckpointError(f"{self.file}: expected content with hash {self.hash[:12]}; the file was changed")

    def facts(self, path: Path) -> dict[str, Any]:
        """What another run writes down that has taken these weights from a path."""
        source = {"path": str(path), "name": self.recipe.name, "weights": self.file.stem}
        return {**source, "epoch": self.epoch, "sha256": self.hash}


def path_of(path: str, seed: int) -> Path:
    """Where a recipe finds another run, its directory or a weights file; `{seed}` stands for the seed."""
    return Path(path.replace("{seed}", str(seed)))


def read_card(path: Path | str) -> Card:
    """What the weights of a run's directory (the best or, failing that, the last) or of one file say; nothing is built.

    Raises:
        CheckpointError: if the file was not written by holdfast, or is damaged.
    """
    file = Path(path)
    if file.is_dir():
        Run(file).check()
        file = Run(file).weights(Run(file).require_labels()[0])
    metadata = read_metadata(file)
    missing = [key for key in ("recipe", "shape", "classes", "hash") if key not in metadata]
    if missing and "trained" in metadata:
        raise CheckpointError(
            f"{file}: expected weights of a recipe; got those of a network that holdfast.fit trained; load them into "
            "such a network with holdfast.models.load_weights, or name it with --model and --weights"
        )
    if missing:
        raise CheckpointError(
            f"{file}: expected weights written by holdfast; {', '.join(missing)} not stated; "
            "for other networks use --model and --weights"
        )
    try:
        recorded = load_yaml(metadata["recipe"])
        recipe = parse_stored(recorded, where=lambda at: f"{file}: {'.'.join(at)}")
        stated = {name: parse_json(metadata[name]) for name in STATED if name in metadata}
        images = parse_record(_Images, stated)
        origins = parse_record(_Origins, parse_json(metadata.get("origins", "{}")))
        require_budget(4 * math.prod(images.shape), f"{file}: an image", error=CheckpointError)
        classes, bases = tuple(images.classes), images.bases
        channels, height, width = images.shape
        groups = None if images.hierarchy is None else hierarchy_of_facts(images.hierarchy, classes)
        return Card(
            file,
            recipe,
            (channels, height, width),
            classes,
            metadata["hash"],
            _epoch(metadata.get("epoch", "0")),
            bases,
            recorded["model"],
            {name: facts for name, facts in vars(origins).items() if facts},
            groups,
        )
    except (ValueError, TypeError, LookupError, yaml.YAMLError) as error:
        raise CheckpointError(f"{file}: expected metadata written by holdfast; {line_of(error)}") from None


def _epoch(text: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text):
        raise ValueError(f"epoch: expected a whole number; got {text[:40]!r}")
    return int(text)


def network_hash(model: Any, state: Mapping[str, Tensor]) -> str:
    """What tells a network from others: the hash of its weights; of a composite, also how it mixes them.

    Composites of other strengths have the same weights, and what was measured for one must not count for another.

    Args:
        model: the network as a recipe has it, in plain values; for a file, as it is recorded there.
        state: its weights.
    """
    digest = content_hash(state)
    composite = isinstance(model, Mapping) and any(name in COMPOSITES for name in model)
    return hashlib.sha256(f"{digest}\n{as_yaml(model)}".encode()).hexdigest() if composite else digest


def content_hash(state: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, shapes and bytes of a state dict."""
    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def line_of(error: BaseException) -> str:
    """The message of an error in one line."""
    text = str(error).strip().partition("\n")[0]
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}".removesuffix(": ")
