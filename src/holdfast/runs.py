"""A run on disk: where its files are, what they say, and how a model is rebuilt from them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

from holdfast.data import Dataset, Split, channel_statistics, split_validation, subset
from holdfast.errors import CheckpointError, DataError, HoldfastError, RecipeError
from holdfast.models import Architecture, build, load_weights, read_metadata, read_state
from holdfast.models.external import Python
from holdfast.recipe import DataRecipe, Recipe, parse, plain, to_yaml
from holdfast.results import Ledger, write_atomically

FREE = ("checks", "evaluate.batch_size", "evaluate.gallery")
"""What may change between two visits to a run: neither its weights nor the blocks of its ledger depend on it."""


@dataclass(frozen=True)
class Run:
    """The directory of one run.

    Args:
        path: the directory.
    """

    path: Path

    @property
    def ledger(self) -> Ledger:
        """Its results."""
        return Ledger(self.path / "ledger")

    @property
    def gallery(self) -> Path:
        """Its perturbed images."""
        return self.path / "gallery"

    @property
    def state(self) -> Path:
        """What training needs to go on."""
        return self.path / "state.pt"

    @property
    def metrics(self) -> Path:
        """One line of JSON per epoch."""
        return self.path / "metrics.jsonl"

    @property
    def info_file(self) -> Path:
        """What was run: versions, data, hashes, seconds."""
        return self.path / "run.json"

    def weights(self, label: str) -> Path:
        """The weights of a label, `best` or `last`."""
        return self.path / f"{label}.safetensors"

    def labels(self) -> list[str]:
        """The weights there are, each content once: `best` goes first and hides an equal `last`."""
        there = [label for label in ("best", "last") if self.weights(label).exists()]
        contents = {label: read_metadata(self.weights(label)).get("hash") for label in there}
        return [label for n, label in enumerate(there) if contents[label] not in [contents[o] for o in there[:n]]]

    def info(self) -> dict[str, Any]:
        """What `run.json` says; empty if there is none."""
        if not self.info_file.exists():
            return {}
        try:
            said: dict[str, Any] = json.loads(self.info_file.read_text(encoding="utf-8"))
        except ValueError:
            said = None  # type: ignore[assignment]
        if not isinstance(said, dict):
            raise CheckpointError(f"{self.info_file}: expected JSON written by holdfast; delete it and repeat")
        return said

    def tell(self, **facts: Any) -> None:
        """Add facts to `run.json`."""
        text = json.dumps({**self.info(), **facts}, indent=2, ensure_ascii=False)
        write_atomically(self.info_file, lambda path: path.write_text(text + "\n", encoding="utf-8"))

    def claim(self, recipe: Recipe) -> None:
        """Take the directory for a recipe, or go on in it; another recipe's training is not overwritten."""
        file = self.path / "recipe.yaml"
        if file.exists():
            changed = _changes(plain(_read_recipe(file), Recipe), plain(recipe, Recipe), "")
            relevant = [path for path in changed if not path.startswith(FREE)]
            if relevant:
                raise RecipeError(
                    f"{self.path}: holds a run of another recipe (differs in {', '.join(relevant[:3])}); "
                    "choose another name or --out, or start over with --fresh"
                )
        text = to_yaml(recipe, Recipe)
        write_atomically(file, lambda path: path.write_text(text, encoding="utf-8"))


def _read_recipe(file: Path) -> Recipe:
    """The resolved recipe that a run keeps."""
    try:
        said = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError):
        raise RecipeError(f"{file}: expected the recipe that holdfast wrote; start over with --fresh") from None
    read: Recipe = parse(Recipe, said, where=lambda path: f"{file}: {'.'.join(path)}")
    return read


@dataclass(frozen=True)
class Splits:
    """The images of a run, cut as its recipe says."""

    name: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    fingerprint: str
    train: Split | None
    validation: Split | None
    test: Split

    def facts(self) -> dict[str, Any]:
        """What a report says about the data."""
        sizes = {name: len(split) if split else 0 for name, split in self._splits().items()}
        return {
            "name": self.name,
            "classes": list(self.classes),
            "shape": list(self.shape),
            "fingerprint": self.fingerprint,
            **sizes,
        }

    def _splits(self) -> dict[str, Split | None]:
        return {"train": self.train, "validation": self.validation, "test": self.test}


def prepare(recipe: DataRecipe, seed: int, root: Path | None = None) -> Splits:
    """Read the data set and cut it: the subset first, validation out of it. The cut depends on the seed."""
    data = recipe.source(root)
    train, validation = data.train, None
    if train is not None and recipe.subset is not None:
        train = subset(train, recipe.subset, seed)
    if train is not None and recipe.validation:
        train, validation = split_validation(train, recipe.validation, seed)
    test = data.test if recipe.test_subset is None else subset(data.test, recipe.test_subset, seed)
    return Splits(data.name, data.classes, data.shape, data.fingerprint(), train, validation, test)


def splits_of(data: Dataset) -> Splits:
    """A data set as it is."""
    return Splits(data.name, data.classes, data.shape, data.fingerprint(), data.train, None, data.test)


def new_model(recipe: Recipe, splits: Splits) -> nn.Module:
    """The recipe's network with fresh weights, normalising by the training images."""
    if splits.train is None:
        raise DataError(f"data {splits.name}: expected training images; it has a test split only")
    mean, std = channel_statistics(splits.train)
    return _built(recipe, splits.shape, len(splits.classes), mean, std)


def _built(recipe: Recipe, shape: Any, classes: int, mean: Any = None, std: Any = None) -> nn.Module:
    return new_network(recipe.model, shape, classes, seed=recipe.seed, mean=mean, std=std)


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
class Loaded:
    """A model read back from its weights."""

    model: nn.Module
    recipe: Recipe
    classes: tuple[str, ...]
    hash: str
    epoch: int
    file: Path


def load_model(path: Path | str) -> Loaded:
    """Rebuild a model from a run's directory (its best weights, else its last) or from one weights file.

    Raises:
        CheckpointError: if the file was not written by holdfast, is damaged, or its content does not match its hash.
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
        epoch = int(said.get("epoch", 0))
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise CheckpointError(f"{file}: expected metadata written by holdfast; {_line(error)}") from None
    model = _built(recipe, shape, len(classes))
    kinds = {tensor.dtype for tensor in read_state(file).values() if tensor.is_floating_point()}
    if len(kinds) == 1:  # the precision it was trained in
        model = model.to(dtype=kinds.pop())
    load_weights(model, file)
    if content_hash(model.state_dict()) != said["hash"]:
        raise CheckpointError(f"{file}: expected content with hash {said['hash'][:12]}; the file was changed")
    return Loaded(model, recipe, classes, said["hash"], epoch, file)


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


def version() -> str:
    """The version of holdfast."""
    return importlib.metadata.version("holdfast")


def versions() -> dict[str, str]:
    """Of everything that can change a number."""
    packages = ("holdfast", "torch", "numpy", "polars", "lightning-fabric")
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}


def _changes(old: Any, new: Any, path: str) -> list[str]:
    """Paths of the fields in which two plain recipes differ."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return [change for key in old for change in _changes(old[key], new[key], f"{path}.{key}".lstrip("."))]
    return [] if old == new else [path]
