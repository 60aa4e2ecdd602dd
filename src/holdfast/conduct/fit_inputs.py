"""Objects in place of names: images, objectives and settings of training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.data.conversion import label_names
from holdfast.data.dataset import Dataset, Split, checked
from holdfast.data.memory import advising_normalisation, tensors_of
from holdfast.errors import DataError, RecipeError
from holdfast.promises import require_objective
from holdfast.recipe.plain import attributes_of, printed
from holdfast.recipe.schema import DataRecipe, TrainRecipe
from holdfast.recipe.strict import parse
from holdfast.runs.code import calls_of, unresolved
from holdfast.runs.splits import Splits, prepare
from holdfast.types import Objective

Group = TypeVar("Group", DataRecipe, TrainRecipe)

Pair = tuple[Tensor | np.ndarray[Any, Any], Tensor | np.ndarray[Any, Any]]
"""Images and labels."""

Images = Split | Dataset | Pair | Iterable[Any]
"""Labelled images: of holdfast, as tensors, as a map-style data set, or as a loader of batches."""

Data = str | Mapping[str, Any] | DataRecipe | Images
"""The same, or what a recipe says of data, where `source` may be such images, too."""

NORMALISATION = "leave normalisation out of the images and put it in front of the network with holdfast.normalised"


@dataclass(frozen=True)
class InMemory:
    """Images as a source of data."""

    dataset: Dataset

    def __call__(self, root: Path | None = None) -> Dataset:
        """The data set; `root` is not used."""
        return self.dataset


def splits_of(data: Data, validation: float | Images, seed: int) -> tuple[DataRecipe, Splits]:
    """The images to train and to judge on, and the recipe that they follow.

    Raises:
        DataError: if they are no labelled images in [0, 1], or validation images do not fit the others.
    """
    recipe = require_objects(_data_recipe(data), "data")
    if isinstance(validation, int | float):
        if validation:
            recipe = _with_share(recipe, validation)
        splits = prepare(recipe, seed)
    else:
        if recipe.validation:
            raise RecipeError("validation: expected a share in data or images here; got both")
        splits = prepare(recipe, seed)
        splits = replace(splits, validation=_held_out(validation, splits))
    if splits.train is None:
        raise DataError(f"data {splits.name}: expected training images; it has a test split only")
    if splits.validation is not None:  # a recipe wants to know of them
        recipe = replace(recipe, validation=len(splits.validation) / (len(splits.train) + len(splits.validation)))
    return recipe, splits


def train_recipe(train: TrainRecipe | Mapping[str, Any] | None, objective: Any) -> TrainRecipe:
    """The settings of training, with an objective that is named or given.

    Args:
        train: the settings, or what a recipe says of them; None for the defaults.
        objective: instead of that of the settings; None for that.

    Raises:
        RecipeError: if a recipe could not say it, or the objective cannot be called.
    """
    if train is not None and not isinstance(train, TrainRecipe | Mapping):
        raise RecipeError(f"train: expected a TrainRecipe or its fields; got {train!r}")
    read: Any = train if isinstance(train, TrainRecipe) else parse(TrainRecipe, dict(train or {}), where=_in_train)
    settings: TrainRecipe = read
    if objective is None:
        return require_objects(settings, "train")
    if isinstance(objective, str | Mapping):
        objective = parse(Objective, objective, where=lambda path: ".".join(("objective", *path)))
    elif isinstance(objective, nn.Module):  # the call of a module takes anything
        require_objective(objective.forward, f"objective {type(objective).__name__}")
    else:
        require_objective(objective)
    try:
        return require_objects(replace(settings, objective=objective), "train")
    except ValueError as error:
        raise RecipeError(f"train.{error}") from None


def require_objects(settings: Group, place: str) -> Group:
    """Refuse settings that name third-party code, which a caller can pass as objects.

    Raises:
        RecipeError: saying where.
    """
    for choice, at in unresolved(settings, place):
        raise RecipeError(f"{at}: names {calls_of(choice)[0]}; import it and pass the object")
    return settings


def described(value: Any, *around: int) -> Any:
    """Plain values that tell settings from others: fields of dataclasses, names of functions, attributes of objects."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return repr(value)
    if id(value) in around:  # an object that has itself among its attributes
        return _name(type(value))
    inner = partial(_described_all, around=(*around, id(value)))
    if isinstance(value, list | tuple):
        return list(inner(dict(enumerate(value))).values())
    if isinstance(value, Mapping):
        return inner(value)
    if hasattr(value, "__qualname__"):  # a function or class
        return _name(value)
    if is_dataclass(value):
        return {_name(type(value)): inner({field.name: getattr(value, field.name) for field in fields(value)})}
    return {_name(type(value)): {"repr": printed(value), **inner(attributes_of(value))}}


def _described_all(values: Mapping[Any, Any], around: tuple[int, ...]) -> dict[str, Any]:
    return {str(name): described(one, *around) for name, one in values.items()}


def _name(value: Any) -> str:
    return f"{value.__module__}:{value.__qualname__}"


def _in_train(path: tuple[str, ...]) -> str:
    return ".".join(("train", *path))


def _data_recipe(data: Data) -> DataRecipe:
    if isinstance(data, DataRecipe):
        return data
    content: dict[str, Any] = dict(data) if isinstance(data, Mapping) else {"source": data}
    source = content.get("source")
    if source is None or isinstance(source, str | Mapping):
        read: DataRecipe = parse(DataRecipe, content, where=lambda path: ".".join(("data", *path)))
        return read
    settings: DataRecipe = parse(
        DataRecipe, {**content, "source": "digits"}, where=lambda path: ".".join(("data", *path))
    )
    made: Any = source if is_dataclass(source) and callable(source) else InMemory(_dataset(source))
    return replace(settings, source=made)


def _with_share(recipe: DataRecipe, share: float) -> DataRecipe:
    if recipe.validation:
        raise RecipeError("validation: expected it once; got a share in data and another one here")
    try:
        return replace(recipe, validation=float(share))
    except ValueError as error:
        raise RecipeError(str(error)) from None


def _dataset(images: Any) -> Dataset:
    """A data set of nothing but training images, unless it is one already."""
    if isinstance(images, Dataset):
        return images
    train = images if isinstance(images, Split) else _split(images, "data")
    classes = label_names([train.y.numpy()], "data")
    whole = checked(train.x, train.y, classes, "data", complete=True)
    return Dataset("data", classes, replace(whole, index=train.index), train.select(slice(0, 0)))


def _held_out(images: Images, splits: Splits) -> Split:
    """Images to judge on."""
    if isinstance(images, Dataset):
        raise DataError("validation: expected images and labels; got a data set with several splits; take one of them")
    made = images if isinstance(images, Split) else _split(images, "validation")
    if made.x.shape[1:] != splits.shape or int(made.y.max()) >= len(splits.classes):
        got = f"{tuple(made.x.shape[1:])} and labels up to {int(made.y.max())}"
        raise DataError(
            f"validation: expected images of shape {splits.shape} and {len(splits.classes)} classes, as the training "
            f"images have; got {got}"
        )
    return made


def _split(images: Any, where: str) -> Split:
    """Images and labels from tensors, arrays, a map-style data set or a loader."""
    if isinstance(images, tuple) and all(isinstance(part, np.ndarray | Tensor) for part in images):
        images = tuple(map(torch.as_tensor, images))
    if isinstance(images, list) and len(images) == 2 and all(isinstance(part, np.ndarray | Tensor) for part in images):
        raise DataError(f"{where}: expected images with labels; got a list of two tensors; pass a tuple (x, y)")
    if isinstance(images, Tensor | np.ndarray) or not (hasattr(images, "__getitem__") or isinstance(images, Iterable)):
        raise DataError(f"{where}: expected images with labels, such as a pair of tensors; got {type(images).__name__}")
    x, y = tensors_of(images, where)
    with advising_normalisation(NORMALISATION):
        return checked(x, y, label_names([y.detach().cpu().numpy()], where), where)
