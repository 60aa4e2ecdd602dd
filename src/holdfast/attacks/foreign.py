"""Attacks of other libraries, run as if they were ours: what their adapters share.

A library gets a few examples at a time, one by default, and a stand-in for the model (`Bridge`). So every question to
the model is counted for its example, random numbers come from the example's own stream, and weights, gradients and
modes of the model are out of reach. What it returns is believed as far as the threat allows: a point beyond eps, or
outside the box, is no success within eps, and the image itself stands for it. Nothing is clipped, except for what
rounding explains. An example for which an attack has no starting point, or whose point leaves a budget that the library
was given, is noted as not attacked.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from holdfast.attacks.search import Aim, require_box
from holdfast.attacks.starting import note_not_run, report_no_start, starting_images
from holdfast.errors import HoldfastError, ModelError, RecipeError, unknown
from holdfast.gradients import require_gradients, without_weights
from holdfast.losses import cross_entropy
from holdfast.rng import Streams, global_generators, streams
from holdfast.threat import L0, L1, L2, Linf
from holdfast.threat.shape import per_example
from holdfast.types import Classifier, Threat
from holdfast.wrappers import Shared, narrow

ORDERS: dict[type[Threat], float] = {Linf: math.inf, L2: 2.0, L1: 1.0, L0: 0.0}
"""The p of each threat's norm, by which other libraries name it."""

Find = Callable[[Tensor, Tensor], Any]
"""Images (n, C, H, W) and labels, or targets, (n,) to the points found, as a tensor or array."""

FindFrom = Callable[[Tensor, Tensor, Tensor], Any]
"""The same with a point to start from for each image, (n, C, H, W)."""


class Foreign(Protocol):
    """The fields of an adapter: see the classes that have them."""

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
    """

    name: str
    make: Make
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.float64)


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


def check(library: Library, foreign: Foreign) -> None:
    """Refuse what cannot run. Where the library is not installed, only calling the attack is an error."""
    if foreign.together < 1:
        raise ValueError(f"together must be at least 1, got {foreign.together}")
    if type(foreign.threat) not in ORDERS:
        supported = ", ".join(kind.__name__.lower() for kind in ORDERS)
        raise ValueError(f"{library.name} has no {_kind(foreign.threat)} attack; threats that it has: {supported}")
    if importlib.util.find_spec(library.name) is not None:
        nobody = Bridge(lambda z: z.flatten(1)[:, :2], torch.zeros(1, 1, 2, 2), torch.float32, 2)
        library.make(foreign, nobody, targeted=False, seed=0)


def run(
    library: Library,
    foreign: Foreign,
    model: Classifier,
    x: Tensor,
    y: Tensor,
    target: Tensor | None,
    rng: Streams | None,
) -> Tensor:
    """Attack the examples that are not where the attack wants them, a few at a time; keep what is in the threat set."""
    x, rng, aim = require_box(x), streams(rng, x), Aim.of(cross_entropy, y, target)
    points = x.clone()
    if not len(x):
        return points
    with torch.no_grad():
        logits = without_weights(model)(x)
    standing = ~aim.reached(logits)
    dtype = x.dtype if x.dtype in library.dtypes else library.dtypes[0]
    excess, stuck = x.new_zeros(len(x)), torch.zeros_like(standing)
    for start in range(0, len(x), foreign.together):
        rows = start + standing[start : start + foreign.together].nonzero()[:, 0]
        if len(rows):
            bridge = Bridge(Shared(narrow(model, rows), len(rows)), x[rows], dtype, logits.shape[1])
            z, budgeted, stuck[rows] = _find(library, foreign, bridge, aim[rows], rng[rows], model)
            points[rows], over = _inside_threat(foreign.threat, z, x[rows], dtype)
            excess[rows] = over if budgeted else 0
    report_no_start(model, stuck)
    _report_excess(f"{library.name} {foreign.attack}", model, excess, foreign.threat)
    return points


def _find(
    library: Library, foreign: Foreign, bridge: Bridge, aim: Aim, rng: Streams, model: Classifier
) -> tuple[Tensor, bool, Tensor]:
    """What the library finds for a few examples, like the images.

    Also whether it promises to stay within eps, and which examples it had no starting point for, (n,) bool.
    """
    x = bridge.images
    require_gradients()
    try:
        with global_generators(rng, x.device) as seed, torch.enable_grad(), _without_their_deprecations():
            made = library.make(foreign, bridge, targeted=aim.targeted, seed=seed)
            z = torch.as_tensor(made.find(x.clone(), aim.labels.clone())).detach().to(x)
            z, stuck = _with_starts(made, foreign.threat, bridge, aim, z, model)
    except HoldfastError:
        raise
    except ValueError as error:  # what our own `make` refuses, and most of what libraries do
        raise RecipeError(f"{library.name} {foreign.attack}: {error}") from error
    except Exception as error:  # a foreign library may raise anything
        raise RecipeError(f"{library.name} {foreign.attack}: {_line(error)}") from error
    if z.shape != x.shape or not bool(z.isfinite().all()):
        what = f"points of shape {tuple(z.shape)}" if z.shape != x.shape else "points that are not finite"
        raise ModelError(f"{library.name} {foreign.attack}: expected points like the images; got {what}")
    return z, made.budgeted, stuck


def _with_starts(
    made: Made, threat: Threat, bridge: Bridge, aim: Aim, z: Tensor, model: Classifier
) -> tuple[Tensor, Tensor]:
    """The points, with those of a second run from the model's images where the first had no start; and who has none."""
    x, stuck = bridge.images, torch.zeros_like(aim.classes, dtype=torch.bool)
    if made.find_from is None or z.shape != x.shape:
        return z, stuck
    stuck = _missed(bridge, aim, z)
    pool = starting_images(model) if stuck.any() else None
    if pool is not None:
        start, available = replace(pool, images=pool.images.reshape(-1, *x.shape[1:])).nearest(threat, x, aim)
        if (again := stuck & available).any():
            z = z.clone()
            z[again] = torch.as_tensor(made.find_from(x[again], aim.labels[again], start[again])).detach().to(z)
            stuck = _missed(bridge, aim, z)
    return torch.where(per_example(stuck, z), x, z), stuck


@torch.no_grad()
def _missed(bridge: Bridge, aim: Aim, z: Tensor) -> Tensor:
    return ~aim.reached(bridge(z))


def _inside_threat(threat: Threat, z: Tensor, x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Points inside the threat set as they are, but for rounding; `x` for the others. And how far these went, (N,)."""
    clean = x.to(dtype).view_as(z)
    z = torch.where(z == clean, x.view_as(z), z.to(x)).view_as(x)  # what was not changed has not been rounded either
    outside = (z - z.clamp(0, 1)).abs().flatten(1).amax(1)
    over = torch.maximum(threat.distance(z, x) - threat.eps, outside)
    slack = 1e-5 * threat.eps + 4 * torch.finfo(dtype).eps
    inside = over <= slack
    return torch.where(per_example(inside, x), threat.project_exact(z, x), x), over.where(~inside, 0)


def _report_excess(attack: str, model: Classifier, excess: Tensor, threat: Threat) -> None:
    note_not_run(model, excess > 0, "its point left the threat set")
    if many := int((excess > 0).sum()):
        where = f"the {_kind(threat)} ball of {threat.eps:g} or the box"
        far = f"by up to {float(excess.max()):.2g}"
        line = f"{attack}: {many} of {len(excess)} points left {where}, {far}; they count as not found"
        warnings.warn(line, RuntimeWarning, stacklevel=5)


def package(name: str, *modules: str, install: str) -> Any:
    """A library's package, with modules of it; a line about what to install where it cannot be imported."""
    try:
        with warnings.catch_warnings():  # they import things that others have deprecated
            warnings.simplefilter("ignore")
            for module in modules:
                importlib.import_module(f"{name}.{module}")
            return importlib.import_module(name)
    except Exception as error:  # a broken binary extension may raise anything
        raise RecipeError(f"cannot import {name} ({_line(error)}); pip install {install}") from error


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
        raise ValueError(f"{kind.__name__}: {_line(error)}") from error


def wrong_aim(targeted: bool) -> ValueError:
    """That an attack cannot go to a target, or cannot go without one."""
    wanted, only = ("goes to a target", "leaves a label") if targeted else ("leaves a label", "goes to a target")
    return ValueError(f"expected an attack that {wanted}; this one only {only}")


def same_norm(foreign: Foreign, orders: tuple[float, ...]) -> None:
    """Refuse a threat in another norm than the attack's."""
    if ORDERS[type(foreign.threat)] not in orders:
        names = [kind.__name__.lower() for kind, order in ORDERS.items() if order in orders]
        raise ValueError(f"{foreign.attack} attacks in {' and '.join(names)}; got the threat {_kind(foreign.threat)}")


@contextmanager
def _without_their_deprecations() -> Iterator[None]:
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        yield


def _kind(threat: Threat) -> str:
    return type(threat).__name__.lower()


def _line(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
