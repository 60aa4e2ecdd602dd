"""Attacks of other libraries, run as if they were ours: what their adapters share.

A library gets a few examples at a time, one by default, and a stand-in for the model (`Bridge`). So every question to
the model is counted for its example, random numbers come from the example's own stream, and weights, gradients and
modes of the model are out of reach. What it returns is believed as far as the threat allows: a point beyond eps, or
outside the box, is no success within eps, and the image itself stands for it. Nothing is clipped, except for what
rounding explains. An example for which an attack has no starting point, or whose point leaves a budget that the library
was given, is noted as not attacked.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from holdfast.attacks.libraries import ORDERS, Bridge, Foreign, Made, kind_of
from holdfast.attacks.search import Aim, require_box
from holdfast.attacks.starting import note_not_run, report_no_start, starting_images
from holdfast.errors import HoldfastError, ModelError, RecipeError, type_and_line
from holdfast.gradients import require_gradients, without_weights
from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, global_generators, streams
from holdfast.threat.shape import per_example
from holdfast.traits import Access
from holdfast.types import Classifier, Threat
from holdfast.wrappers import Shared, narrow


def access(foreign: Foreign) -> Access:
    """What the attack must know of the network."""
    return foreign.library.without_gradients.get(foreign.attack, Access.GRADIENTS)


def thorough(foreign: Foreign) -> bool:
    """Whether it takes several steps."""
    return foreign.attack not in foreign.library.single_step


def check(foreign: Foreign) -> None:
    """Refuse what cannot run. Where the library is not installed, only calling the attack is an error."""
    library = foreign.library
    if foreign.together < 1:
        raise ValueError(f"together must be at least 1, got {foreign.together}")
    if type(foreign.threat) not in ORDERS:
        supported = ", ".join(kind.__name__.lower() for kind in ORDERS)
        raise ValueError(f"{library.name} has no {kind_of(foreign.threat)} attack; threats that it has: {supported}")
    if importlib.util.find_spec(library.name) is not None:
        nobody = Bridge(lambda z: z.flatten(1)[:, :2], torch.zeros(1, 1, 2, 2), torch.float32, 2)
        library.make(foreign, nobody, targeted=False, seed=0)


@in_evaluation_mode
def run(
    foreign: Foreign,
    model: Classifier,
    x: Tensor,
    y: Tensor,
    *,
    target: Tensor | None = None,
    rng: Streams | None = None,
) -> Tensor:
    """Attack the examples that are not where the attack wants them, a few at a time; keep what is in the threat set."""
    library = foreign.library
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
            z, budgeted, stuck[rows] = _find(foreign, bridge, aim[rows], rng[rows], model)
            points[rows], over = _inside_threat(foreign.threat, z, x[rows], dtype)
            excess[rows] = over if budgeted else 0
    report_no_start(model, stuck)
    _report_excess(f"{library.name} {foreign.attack}", model, excess, foreign.threat)
    return points


def _find(foreign: Foreign, bridge: Bridge, aim: Aim, rng: Streams, model: Classifier) -> tuple[Tensor, bool, Tensor]:
    """What the library finds for a few examples, like the images.

    Also whether it promises to stay within eps, and which examples it had no starting point for, (n,) bool.
    """
    x, library = bridge.images, foreign.library
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
        raise RecipeError(f"{library.name} {foreign.attack}: {type_and_line(error)}") from error
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
        where = f"the {kind_of(threat)} ball of {threat.eps:g} or the box"
        far = f"by up to {float(excess.max()):.2g}"
        line = f"{attack}: {many} of {len(excess)} points left {where}, {far}; they count as not found"
        warnings.warn(line, RuntimeWarning, stacklevel=4)


@contextmanager
def _without_their_deprecations() -> Iterator[None]:
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        yield
