"""Libraries of attacks: what an adapter states of one, and what it needs to make one of its attacks."""

from __future__ import annotations

import importlib
import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from holdfast.errors import RecipeError, type_and_line, unknown
from holdfast.gradients import without_weights
from holdfast.threat.l0 import L0
from holdfast.threat.l1 import L1
from holdfast.threat.l2 import L2
from holdfast.threat.linf import Linf
from holdfast.traits import Access
from holdfast.types import Classifier, Threat

ORDERS: dict[type[Threat], float] = {Linf: math.inf, L2: 2.0, L1: 1.0, L0: 0.0}
"""The p of each threat's norm, by which other libraries name it."""

Find = Callable[[Tensor, Tensor], Any]
"""Images (n, C, H, W) and labels, or targets, (n,) to the points found, as a tensor or array."""

FindFrom = Callable[[Tensor, Tensor, Tensor], Any]
"""The same with a point to start from for each image, (n, C, H, W)."""


class Foreign(Protocol):
    """The fields of an adapter: see the classes that have them."""

    @property
    def library(self) -> Library:
        """Whose attack it is."""
        ...

    @property
    def attack(self) -> str:
        """Name of the attack in its library."""
        ...

    @property
    def threat(self) -> Threat:
        """Where the attack may search."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """Further arguments of the attack."""
        ...

    @property
    def together(self) -> int:
        """Examples that the library gets at a time."""
        ...


@dataclass(frozen=True)
class Made:
    """An attack of a library, ready to run.

    Args:
        find: runs it.
        budgeted: whether the library knows eps and promises to stay within it.
        find_from: runs it from given points; None unless it walks from a success to a success, so that where it ends
            without one it had no starting point.
    """

    find: Find
    budgeted: bool
    find_from: FindFrom | None = None


class Make(Protocol):
    """Makes a library's attack; whatever does not fit is a ValueError."""

    def __call__(self, wanted: Foreign, model: Bridge, *, targeted: bool, seed: int) -> Made:
        """The attack on a model, away from labels or towards targets."""
        ...


@dataclass(frozen=True)
class Library:
    """A library of attacks.

    Args:
        name: of its package.
        make: makes one of its attacks.
        dtypes: what it computes in; images of another dtype go there and back in the first of them.
        without_gradients: what those of its attacks need that follow no gradient, by name.
        single_step: its attacks that take one step only.
    """

    name: str
    make: Make
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.float64)
    without_gradients: Mapping[str, Access] = field(default_factory=dict)
    single_step: tuple[str, ...] = ()


class Bridge(nn.Module):
    """A classifier as other libraries want it: a module for images with channels, rows and columns.

    The model is not among its children: what a library does to the module's modes, gradients or parameters ends here.

    Args:
        model: the classifier.
        x: the images to ask about, for their shape, device and dtype, (n, ...).
        dtype: what the library computes in.
        classes: how many logits the model has.

    Attributes:
        images: those images as the library gets them.
    """

    def __init__(self, model: Classifier, x: Tensor, dtype: torch.dtype, classes: int) -> None:
        super().__init__()
        self.place = nn.Parameter(torch.zeros((), dtype=dtype, device=x.device))  # where libraries look for the device
        self.images = (x if x.dim() == 4 else x.flatten(1)[:, None, None]).to(dtype)
        self.classes = classes
        self._x, self._ask = x, without_weights(model)
        self.eval()

    def forward(self, z: Tensor) -> Tensor:
        """Logits."""
        return self._ask(z.reshape(len(z), *self._x.shape[1:]).to(self._x)).to(z)


def package(name: str, *modules: str, install: str) -> Any:
    """A library's package, with modules of it; a line about what to install where it cannot be imported."""
    try:
        with warnings.catch_warnings():  # they import things that others have deprecated
            warnings.simplefilter("ignore")
            for module in modules:
                importlib.import_module(f"{name}.{module}")
            return importlib.import_module(name)
    except Exception as error:  # a broken binary extension may raise anything
        raise RecipeError(f"cannot import {name} ({type_and_line(error)}); pip install {install}") from error


def chosen(name: str, available: Mapping[str, Any]) -> Any:
    """The class of this name."""
    if name not in available:
        raise ValueError(f"attack: {unknown(name, available)}")
    return available[name]


def arguments(kind: Any, options: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Options and, of what the adapter decides, those arguments that the class has.

    Raises:
        ValueError: for an option that it does not have, or that the adapter decides.
    """
    parameters = inspect.signature(kind).parameters
    for name in options:
        if name in ours:
            raise ValueError(f"options.{name}: the adapter sets it, from threat, target, seed and model")
        if name not in parameters:
            raise ValueError(f"options.{name}: {unknown(name, set(parameters) - set(ours))}")
    return {**options, **{name: value for name, value in ours.items() if name in parameters}}


def built(kind: Any, given: Mapping[str, Any]) -> Any:
    """An object of a library; what it objects to becomes a line."""
    try:
        return kind(**given)
    except Exception as error:  # a foreign library may raise anything
        raise ValueError(f"{kind.__name__}: {type_and_line(error)}") from error


def wrong_aim(targeted: bool) -> ValueError:
    """That an attack cannot go to a target, or cannot go without one."""
    wanted, only = ("goes to a target", "leaves a label") if targeted else ("leaves a label", "goes to a target")
    return ValueError(f"expected an attack that {wanted}; this one only {only}")


def same_norm(foreign: Foreign, orders: tuple[float, ...]) -> None:
    """Refuse a threat in another norm than the attack's."""
    if ORDERS[type(foreign.threat)] not in orders:
        names = [kind.__name__.lower() for kind, order in ORDERS.items() if order in orders]
        raise ValueError(f"{foreign.attack} attacks in {' and '.join(names)}; got the threat {kind_of(foreign.threat)}")


def kind_of(threat: Threat) -> str:
    """The name of a threat, for messages."""
    return type(threat).__name__.lower()
