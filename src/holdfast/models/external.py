"""Networks that others define: a factory in a Python module, timm, torchvision."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from holdfast.errors import RecipeError, type_and_line, unknown
from holdfast.models.logits import with_logits
from holdfast.models.network import normalised
from holdfast.registry import imported, working_directory_importable


@dataclass(frozen=True, kw_only=True)
class Python:
    """A network made by a function of yours, `package.module:factory`.

    The factory is called with the options only; shape and classes are its own business. The working directory can be
    imported from, after everything that is installed.

    Args:
        factory: module and name of a function or class that returns an `nn.Module` of images in [0, 1]. It answers with
            logits, or with a record that has them in its attribute `logits`, as the networks of Hugging Face do.
        options: keyword arguments of the factory.
        mean: per channel, subtracted from the images first; None for 0.
        std: per channel, divides them; None for 1.
    """

    factory: str
    options: Mapping[str, Any] = field(default_factory=dict)
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __call__(self, shape: tuple[int, int, int], classes: int) -> nn.Module:
        """Call the factory."""
        with working_directory_importable():
            make = _find(self.factory)
            try:
                inspect.signature(make).bind(**self.options)
            except TypeError as error:
                raise RecipeError(f"model.options: {self.factory} does not take these options: {error}") from error
            model = make(**self.options)
        if not isinstance(model, nn.Module):
            raise RecipeError(f"model.factory: expected {self.factory} to return a torch module, got {_kind(model)}")
        model = with_logits(model, torch.zeros(1, *shape))
        return _in_front(model, shape[0], self.mean, self.std)


TIMM_OPTIONS = (
    "act_layer", "aa_layer", "attn_drop_rate", "depth", "depths", "drop_path_rate", "drop_rate", "embed_dim",
    "global_pool", "img_size", "init_values", "layers", "mlp_ratio", "norm_layer", "num_heads", "output_stride",
    "patch_size", "proj_drop_rate", "qkv_bias", "stem_type", "stem_width", "window_size",
)  # fmt: skip
"""Options of timm that a recipe may set."""


@dataclass(frozen=True, kw_only=True)
class Timm:
    """A network of the timm library (extra `timm`).

    Only options that change the shape of the network are taken: others name files and addresses to load from.

    Args:
        name: as in `timm.create_model`.
        pretrained: with downloaded weights.
        options: further keyword arguments of `timm.create_model`: numbers and words by the names in `TIMM_OPTIONS`, for
            instance `img_size`.
        mean: per channel, subtracted from the images first; None for 0.
        std: per channel, divides them; None for 1.
    """

    name: str
    pretrained: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name, value in self.options.items():
            if name not in TIMM_OPTIONS:
                raise RecipeError(f"options: {unknown(name, TIMM_OPTIONS)}")
            if not _is_plain(value):
                raise RecipeError(f"options.{name}: expected a number or a word; got {value!r}")

    def __call__(self, shape: tuple[int, int, int], classes: int) -> nn.Module:
        """Create the network for these channels and classes."""
        timm = _library("timm")
        if not timm.is_model(self.name):
            raise RecipeError(f"model.name: timm has no network '{self.name}'")
        model = timm.create_model(
            self.name, pretrained=self.pretrained, num_classes=classes, in_chans=shape[0], **self.options
        )
        return _in_front(model, shape[0], self.mean, self.std)


@dataclass(frozen=True, kw_only=True)
class Torchvision:
    """A network of torchvision (extra `torchvision`), which takes images of three channels.

    Args:
        name: as in `torchvision.models.get_model`.
        weights: name of downloaded weights, for instance "DEFAULT"; they bring their own number of classes.
        mean: per channel, subtracted from the images first; None for 0.
        std: per channel, divides them; None for 1.
    """

    name: str
    weights: str | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __call__(self, shape: tuple[int, int, int], classes: int) -> nn.Module:
        """Create the network for these classes."""
        models = _library("torchvision").models
        if self.name not in models.list_models():
            raise RecipeError(f"model.name: torchvision has no network '{self.name}'")
        if self.weights is None:
            model = models.get_model(self.name, weights=None, num_classes=classes)
        else:
            model = models.get_model(self.name, weights=self.weights)
        return _in_front(model, shape[0], self.mean, self.std)


def _is_plain(value: object) -> bool:
    """Whether a value is a number, a word without a path in it, or a list of such."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float) or bool(re.fullmatch(r"\w*", str(value)))


def _find(factory: str) -> Any:
    try:
        return imported(factory, word="factory")
    except RecipeError as error:
        raise RecipeError(f"model.factory: {error}") from error


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # a broken binary extension may raise anything
        hint = f"install the extra, pip install 'holdfast[{name}]'"
        raise RecipeError(f"model: cannot import {name} ({type_and_line(error)}); {hint}") from error


def _in_front(model: nn.Module, channels: int, mean: Sequence[float] | None, std: Sequence[float] | None) -> nn.Module:
    if mean is None and std is None:
        return model
    return normalised(model, mean or [0.0] * channels, std or [1.0] * channels)


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
