"""Networks of recipes, made anew; composites are made of the networks of other runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.budget import require_budget
from holdfast.data.dataset import Split, channel_statistics, subset
from holdfast.ensembles.neighbours import NearestNeighbours
from holdfast.ensembles.of_runs import DefendedRun, HAROfRuns, OfRuns
from holdfast.errors import CheckpointError, DataError, HoldfastError, RecipeError
from holdfast.families import MODELS
from holdfast.hierarchy import with_hierarchy
from holdfast.models import build
from holdfast.models.external import Python, Timm, Torchvision
from holdfast.models.plan import bytes_of, planned, require_sizes
from holdfast.models.weights import load_weights, read_state
from holdfast.recipe import plain
from holdfast.recipe.schema import Recipe
from holdfast.recipe.strict import parse
from holdfast.runs.card import Card, line_of, path_of, read_card
from holdfast.runs.code import TrustedCode, require_trust, resolved
from holdfast.runs.directory import Run
from holdfast.runs.splits import Splits
from holdfast.types import Architecture

EXTERNAL = (Python, Timm, Torchvision)

Bases = Mapping[str, Mapping[str, Any]]
"""What is known of the networks inside a composite, by role: plain values, enough to build them."""


def new_model(recipe: Recipe, splits: Splits, bases: Bases | None = None, *, trust: TrustedCode = False) -> nn.Module:
    """The recipe's network with fresh weights, normalising by the training images.

    A composite has the weights of the runs it is made of; `bases` are what `find_bases` knows of them, which is asked
    where they are not given. Those whose files are no more are left fresh. Factories are called only with `trust`.
    """
    if splits.train is None:
        raise DataError(f"data {splits.name}: expected training images; it has a test split only")
    architecture = with_hierarchy(recipe.model, splits.hierarchy, recipe.name)
    model: object = architecture
    if isinstance(model, OfRuns):
        stored = find_bases(recipe, splits, trust=trust) if bases is None else bases
        return _filled(recipe, model, splits, stored, trust=trust)
    mean, std = channel_statistics(splits.train)
    return new_network(
        architecture, splits.shape, len(splits.classes), seed=recipe.seed, mean=mean, std=std, trust=trust
    )


def new_network(
    architecture: Architecture, shape: tuple[int, int, int], classes: int, *, seed: int = 0, mean: Any = None,
    std: Any = None, bases: Bases | None = None, trust: TrustedCode = False,
    fitting: Callable[[nn.Module], None] | None = None,
) -> nn.Module:  # fmt: skip
    """A network with fresh weights; what cannot be built is the recipe's fault, a user's factory included.

    Raises:
        RecipeError: if it cannot be built, does not fit the budget of memory, or a factory makes it and the caller does
            not say `trust`.
    """
    architecture = resolved(architecture, "model", trust=trust)
    require_trust(architecture, "model", trust=trust)
    composite: object = architecture

    def make(shape: tuple[int, int, int], classes: int) -> nn.Module:
        if isinstance(composite, OfRuns):
            return _composite(composite, shape, classes, seed, bases or {}, trust=trust)
        return build(architecture, shape, classes, seed=seed, mean=mean, std=std)

    try:
        require_sizes(architecture)
        if not _is_external(architecture, bases or {}):
            plan = planned(make, shape, classes)
            smaller = "make the network smaller"
            require_budget(bytes_of(plan), "model: the network", error=RecipeError, smaller=smaller)
            if fitting is not None:
                fitting(plan)
        return make(shape, classes)
    except HoldfastError:
        raise
    except Exception as error:  # a user's factory may raise anything
        if isinstance(error, ValueError) or _is_third_party(architecture):
            raise RecipeError(f"model: {line_of(error)}") from error
        raise


def _is_external(architecture: Architecture, bases: Bases) -> bool:
    """Whether third-party code makes the network, or one in it: it may need values of tensors to do so."""
    names = [name for base in bases.values() if isinstance(base.get("model"), Mapping) for name in base["model"]]
    external = isinstance(architecture, EXTERNAL) or _is_third_party(architecture)
    return external or any(MODELS.get(name) in EXTERNAL for name in names)


def _is_third_party(architecture: Architecture) -> bool:
    """Whether code that holdfast does not know makes the network: a factory, or a method of a package."""
    maker: object = architecture
    of_package = is_dataclass(maker) and type(maker).__module__.partition(".")[0] != "holdfast"
    return of_package or isinstance(maker, Python)


def find_bases(recipe: Recipe, splits: Splits, run: Run | None = None, *, trust: TrustedCode = False) -> Bases:
    """What is known of the networks that a composite is made of; nothing for other networks.

    Args:
        recipe: of the composite.
        splits: its images.
        run: the composite's own run. What its `run.json` says it was made of before must be the same; once it has
            weights of its own, the other runs may be gone.
        trust: whether factories that the files of those networks name may be called.

    Raises:
        RecipeError: if a network is not there, was changed, does not fit the images, or is a composite itself.
    """
    composite: object = with_hierarchy(recipe.model, splits.hierarchy, recipe.name)
    if not isinstance(composite, OfRuns):
        return {}
    before: Bases = {} if run is None else run.info().get("bases", {})
    begun = run is not None and (run.state.exists() or bool(run.labels()))
    facts: dict[str, Mapping[str, Any]] = {}
    for role, path in composite.roles.items():
        if path is None:
            facts[role] = {"neighbours": len(_images(composite, recipe, splits))}
            continue
        try:
            wanted = splits
            if isinstance(composite, HAROfRuns):
                wanted = replace(splits, name=f"{splits.name} ({role})", classes=composite.classes_of(role))
            facts[role] = _base_facts(path_of(path, recipe.seed), wanted, trust=trust)
        except CheckpointError as error:
            if not begun or role not in before:
                raise RecipeError(f"model.{role}: {error}") from error
            facts[role] = before[role]
        _require_same_weights(role, facts[role], before.get(role, facts[role]))
    return facts


def _base_facts(path: Path, splits: Splits, *, trust: TrustedCode) -> dict[str, Any]:
    """What the weights at a path say; only those of a network that fits."""
    card = read_card(path)
    state = read_state(card.file)
    card.check(state)
    if isinstance(card.recipe.model, OfRuns):
        raise CheckpointError(f"{card.file}: expected a network that is not a composite itself")
    require_trust(card.recipe.model, str(card.file), trust=trust, error=CheckpointError)
    fits(card, splits)
    kinds = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()}
    dtype = kinds.pop() if len(kinds) == 1 else torch.get_default_dtype()
    model = plain(card.recipe.model, Architecture)
    return {**card.facts(path), "dtype": str(dtype).removeprefix("torch."), "model": model}


def fits(card: Card, splits: Splits) -> None:
    """Refuse weights of a network for other images or classes.

    Raises:
        CheckpointError: saying which.
    """
    if (card.shape, card.classes) == (tuple(splits.shape), tuple(splits.classes)):
        return
    wanted, got = ((len(of.classes), "x".join(map(str, of.shape))) for of in (splits, card))
    names = "" if wanted != got else f", and others than {splits.classes[0]}, ..."
    raise CheckpointError(
        f"{card.file}: expected a network of {wanted[0]} classes and images of {wanted[1]}, as {splits.name} has; "
        f"got {got[0]} and {got[1]}{names}"
    )


def _require_same_weights(role: str, now: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    if now.get("sha256") != before.get("sha256"):
        raise RecipeError(
            f"model.{role}: {now.get('path')} has other weights ({str(now.get('sha256'))[:12]}) than those this run "
            f"was made of ({str(before.get('sha256'))[:12]}); start over with --fresh"
        )


def _composite(
    composite: OfRuns, shape: tuple[int, int, int], classes: int, seed: int, bases: Bases, *, trust: TrustedCode
) -> nn.Module:
    """A composite of fresh networks."""
    sizes = {
        role: len(composite.classes_of(role)) if isinstance(composite, HAROfRuns) else classes
        for role in composite.roles
    }
    parts = {role: _inside(composite, shape, size, bases.get(role, {}), trust=trust) for role, size in sizes.items()}
    networks = [part for part in parts.values() if not isinstance(part, NearestNeighbours)]
    kinds = list(dict.fromkeys(next(network.parameters(), torch.empty(0)).dtype for network in networks))
    if len(kinds) > 1:
        raise RecipeError(f"model: expected networks of the same precision, got {kinds[0]} and {kinds[1]}")

    def joined(shape: tuple[int, int, int]) -> nn.Module:
        if isinstance(composite, HAROfRuns | DefendedRun):
            return composite.of_parts(parts)
        return composite.of(parts["standard"], parts["robust"], shape)

    return build(lambda shape, _: joined(shape), shape, classes, seed=seed).to(dtype=kinds[0])


def _inside(
    composite: OfRuns, shape: tuple[int, int, int], classes: int, base: Mapping[str, Any], *, trust: TrustedCode
) -> nn.Module:
    """One of those in a composite, fresh."""
    if composite.neighbours is not None and "neighbours" in base:
        return composite.neighbours.empty(shape, classes, base["neighbours"])
    if not {"model", "dtype"} <= base.keys():
        raise RecipeError("model: expected the networks that a composite is made of; nothing says which they are")
    architecture = parse(Architecture, base["model"])
    network = new_network(architecture, shape, classes, trust=trust)
    return network.to(dtype=getattr(torch, base["dtype"]))


def _filled(recipe: Recipe, composite: OfRuns, splits: Splits, bases: Bases, *, trust: TrustedCode) -> nn.Module:
    """A composite with the weights of those inside, or the images."""
    size: Any = (splits.shape, len(splits.classes))
    made_of: Any = composite
    model: Any = new_network(made_of, *size, seed=recipe.seed, bases=bases, trust=trust)
    for role, base in bases.items():
        if composite.neighbours is not None and "neighbours" in base:
            x, y = _images(composite, recipe, splits).batch(slice(None))
            getattr(model, role).load_state_dict(composite.neighbours.of(x, y, len(splits.classes)).state_dict())
        elif (file := _file(base)).exists():
            place = composite.submodule(role) if isinstance(composite, HAROfRuns) else role
            load_weights(model.get_submodule(place), file)
    return model  # type: ignore[no-any-return]


def _file(base: Mapping[str, Any]) -> Path:
    path = Path(base["path"])
    return Run(path).weights(base["weights"]) if path.is_dir() else path


def _images(composite: OfRuns, recipe: Recipe, splits: Splits) -> Split:
    """The images that a composite looks among."""
    if splits.train is None:
        raise DataError(f"data {splits.name}: expected training images; it has a test split only")
    some = composite.neighbours.subset if composite.neighbours is not None else None
    try:
        return splits.train if some is None else subset(splits.train, some, recipe.seed)
    except DataError as error:
        raise DataError(f"model.neighbours.{error}") from error
