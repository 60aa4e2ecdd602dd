"""What `holdfast.evaluate` takes, as the forms that evaluations work with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.checks import Check
from holdfast.data.memory import Memory, advising_normalisation
from holdfast.errors import DataError, ModelError, RecipeError
from holdfast.evaluation.subject import place
from holdfast.hierarchy import Hierarchy
from holdfast.models.network import PerChannel, normalised
from holdfast.promises import require_check
from holdfast.recipe.schema import EvaluateRecipe
from holdfast.recipe.strict import parse
from holdfast.recipe.sweeps import parse_checks, read_checks
from holdfast.runs.splits import Splits
from holdfast.types import Classifier

Images = Tensor | np.ndarray[Any, Any] | Iterable[Any]
"""Images as tensors, or images with labels: a data set, or a loader of batches."""

Checks = str | Mapping[str, Any] | Check | Sequence[str | Mapping[str, Any] | Check]
"""Methods, names of checks or presets, or what a recipe says of checks."""

NORMALISATION = "leave normalisation out of the images and give mean= and std= instead"


def splits_of(x: Images, y: Tensor | np.ndarray[Any, Any] | None, hierarchy: Hierarchy | None = None) -> Splits:
    """Test images with their labels and the hierarchy of their classes, and none to train on."""
    if isinstance(y, str | Mapping):
        raise DataError(f"y: expected labels; got {y!r}; say checks={y!r}")
    if y is None and isinstance(x, Tensor | np.ndarray):
        raise DataError("y: expected the labels of the images; got None")
    if y is not None and not isinstance(x, Tensor | np.ndarray | list | tuple):
        raise DataError(f"y: expected None beside {type(x).__name__}, which has labels of its own; got labels")
    test: Any = x if y is None else (torch.as_tensor(x), torch.as_tensor(y))
    with advising_normalisation(NORMALISATION):
        names = None if hierarchy is None else hierarchy.classes
        data = Memory(test=test, classes=names, hierarchy=hierarchy)()
    return Splits(
        data.name, data.classes, data.shape, data.fingerprint(), None, None, data.test, hierarchy=data.hierarchy
    )


@contextmanager
def moved(model: Classifier, device: torch.device | str | None) -> Iterator[None]:
    """Put a module on a device, and afterwards where it was."""
    if device is None:
        yield
        return
    if not isinstance(model, nn.Module):
        raise ModelError(f"device: expected a torch module, which can be moved; got {type(model).__name__}")
    before = place(model).device
    model.to(device)
    try:
        yield
    finally:
        model.to(before)


def normalising(model: Classifier, mean: PerChannel | None, std: PerChannel | None, channels: int) -> Classifier:
    """The model behind a normalisation, if there is one."""
    if mean is None and std is None:
        return model
    for name, given in (("mean", mean), ("std", std)):
        if isinstance(given, Sequence) and len(given) != channels:
            raise RecipeError(f"{name}: expected a number, or {channels}, one per channel; got {given!r}")
    try:
        return normalised(model, 0.0 if mean is None else mean, 1.0 if std is None else std)
    except ValueError as error:
        raise RecipeError(str(error)) from None


def settings_of(given: EvaluateRecipe | Mapping[str, Any] | None) -> EvaluateRecipe:
    """How the checks run; a block has at least as many images as a pass."""
    how = given if isinstance(given, EvaluateRecipe) else parse(EvaluateRecipe, dict(given or {}))
    return replace(how, block=max(how.block, how.batch_size))


def listed_checks(checks: Any, place: str = "checks") -> list[Check]:
    """The checks that a name, a record, a method or a list of such stands for."""
    if isinstance(checks, str):
        return read_checks(checks)
    if isinstance(checks, Mapping):
        return parse_checks(dict(checks))
    if isinstance(checks, Sequence):
        return [one for number, each in enumerate(checks) for one in listed_checks(each, f"{place}[{number}]")]
    return [require_check(checks, place)]
