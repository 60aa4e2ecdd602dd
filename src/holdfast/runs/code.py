"""Code that recipes and weights files name, and whether the user lets it run.

A factory `package.module:make` of a network or a method `package.module:Name` could do anything, and what it does may
depend on its options or fields. So neither in a file is a permission: that comes from the command line (`--trust`) or
from the caller (`trust=True`), and from nothing that is read.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import invalidate_caches
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from holdfast.attacks.transfer import Transfer
from holdfast.ensembles.of_runs import OfRuns
from holdfast.errors import CheckpointError, HoldfastError, RecipeError
from holdfast.models.external import Python
from holdfast.objectives.alignment import Align
from holdfast.recipe.foreign import Unresolved, code_in, place_of
from holdfast.recipe.plain import to_yaml
from holdfast.recipe.schema import Recipe
from holdfast.recipe.stored import resolve_choice
from holdfast.recipe.strict import parse
from holdfast.runs.card import Card, path_of, read_card
from holdfast.types import Architecture

REMEDY = "--trust (in Python, trust=True)"
"""How the user allows code to run."""


TrustedCode = bool | frozenset[str]
"""Which third-party code may run: all, none, or these calls, as `calls_of` writes them."""


def call_of(network: Python) -> str:
    """What tells calls of factories apart: its name, with the options as canonical JSON where there are any."""
    return _call(network.factory, network.options)


def calls_of(choice: object) -> list[str]:
    """The code that a choice of a recipe would run: a factory of a network, or third-party methods."""
    if isinstance(choice, Python):
        return [call_of(choice)]
    return [_call(place, fields) for place, fields in code_in(choice.stated)] if isinstance(choice, Unresolved) else []


def _call(place: str, fields: Mapping[str, Any]) -> str:
    return f"{place} {json.dumps(_canonical(fields), sort_keys=True, default=repr)}" if fields else place


def _canonical(value: Any) -> Any:
    """Plain values in which keys that are no text cannot pass for text."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _canonical(one) for key, one in value.items()}
    if isinstance(value, Mapping):
        return {"mapping": sorted([repr(key), repr(one)] for key, one in value.items())}
    return [_canonical(one) for one in value] if isinstance(value, list | tuple) else value


def require_trust(choice: object, place: str, *, trust: TrustedCode, error: type[HoldfastError] = RecipeError) -> None:
    """Refuse a network that a factory makes, or a third-party method, unless the caller lets it run.

    Raises:
        HoldfastError: of the type `error`, with the remedy.
    """
    for call in calls_of(choice):
        if not (trust if isinstance(trust, bool) else call in trust):
            raise error(f"{place}: calls {call}, which could do anything; if you trust it, allow it with {REMEDY}")


def resolved(value: Any, place: str = "", *, trust: TrustedCode, error: type[HoldfastError] = RecipeError) -> Any:
    """A recipe, or a part of one, with the third-party methods in it imported; the same object where there are none.

    Args:
        value: as it was read.
        place: where that is, for messages; the name of a run or file ends in a colon and a space.
        trust: which third-party code may run.
        error: the type of error for code that may not.

    Raises:
        HoldfastError: for code that is not trusted, before anything is imported, or that cannot be used.
    """
    for choice, at in unresolved(value, place):
        require_trust(choice, at, trust=trust, error=error)
    return _resolved(value, place)


def installed_methods(value: Any) -> set[str]:
    """Where the methods of installed packages are defined that a recipe, or a part of one, has."""
    own = type(value) if dataclasses.is_dataclass(value) else value
    module = getattr(own, "__module__", None)
    named = isinstance(module, str) and module.partition(".")[0] not in ("holdfast", "builtins")
    inner = {place for _, part in _parts(value) for place in installed_methods(part)}
    return {place_of(own), *inner} if named and callable(own) else inner


def unresolved(value: Any, place: str = "") -> Iterator[tuple[Unresolved, str]]:
    """The choices in a recipe, or a part of one, that name third-party methods, each with its place."""
    if isinstance(value, Unresolved):
        yield value, place
    for name, inner in _parts(value):
        yield from unresolved(inner, _below(place, name))


def _resolved(value: Any, place: str) -> Any:
    if isinstance(value, Unresolved):
        return resolve_choice(value, where=lambda at: ".".join((place, *at)))
    new = {name: _resolved(inner, _below(place, name)) for name, inner in _parts(value)}
    changed = {name: new[name] for name, inner in _parts(value) if new[name] is not inner}
    if not changed:
        return value
    try:
        return tuple(new.values()) if isinstance(value, tuple) else dataclasses.replace(value, **changed)
    except ValueError as problem:  # what a recipe says of a method, which is looked at only now
        raise RecipeError(f"{place.removesuffix(': ')}: {problem}" if place else str(problem)) from problem


def _below(place: str, name: str) -> str:
    """The place of a part: `checks.0`, and behind a name `n/seed-0: checks`."""
    return f"{place}{name}" if not place or place.endswith(": ") else f"{place}.{name}"


def _parts(value: Any) -> list[tuple[str, Any]]:
    """Members of a tuple or fields of a group, with their names."""
    if isinstance(value, tuple):
        return [(str(number), inner) for number, inner in enumerate(value)]
    if not dataclasses.is_dataclass(value) or isinstance(value, type | Unresolved):
        return []
    return [(each.name, getattr(value, each.name)) for each in dataclasses.fields(value) if each.init]


def named_networks(card: Card) -> list[Architecture]:
    """The networks that a weights file names: its own, and those inside a composite."""
    inside = [base["model"] for base in card.bases.values() if "model" in base]
    return [card.recipe.model, *(parse(Architecture, model, where=lambda _: str(card.file)) for model in inside)]


def calls_in(recipe: object) -> list[str]:
    """The calls that a recipe, or a part of one such as a network, names itself."""
    choices = [recipe, getattr(recipe, "model", None), *(choice for choice, _ in unresolved(recipe))]
    return [call for choice in choices for call in calls_of(choice)]


def code_of(recipes: Sequence[Recipe | Any]) -> dict[str, Path | None]:
    """Calls of third-party code that training and checking these recipes would make, with the file of each.

    Those of networks that a composite, a transferred attack or a question takes from other runs are among them as soon
    as those runs exist.
    """
    networks = [network for recipe in recipes if isinstance(recipe, Recipe) for network in _networks(recipe)]
    calls = {call for part in (*recipes, *networks) for call in calls_in(part)}
    return {call: _file(call.partition(":")[0]) for call in sorted(calls)}


def _networks(recipe: Recipe) -> list[Architecture]:
    model: object = recipe.model
    checks = (*recipe.checks, *recipe.epoch_checks)
    sources = [check.source for check in checks if isinstance(check, Transfer)]
    sources += [path for question in recipe.analyses for path in getattr(question, "sources", ())]
    if isinstance(recipe.train.objective, Align):
        sources += recipe.train.objective.witnesses
    sources += [path for path in (recipe.train.selection.target,) if path is not None]
    if isinstance(model, OfRuns):
        sources += [path for path in model.roles.values() if path is not None]
    networks = [recipe.model]
    for source in sources:
        try:
            networks += named_networks(read_card(path_of(source, recipe.seed)))
        except (CheckpointError, RecipeError):
            continue  # not there yet; it is asked about again when it is read
    return networks


def _file(module: str) -> Path | None:
    """The file of a module."""
    specs = _specs(module)
    return Path(str(specs[-1].origin)) if specs and specs[-1].has_location else None


def _specs(module: str) -> list[ModuleSpec]:
    """Where an import would take a module and the packages around it from, without importing anything.

    Empty where the module would not be imported.
    """
    here, specs = os.getcwd(), []
    path: Sequence[str] = [*(place for place in sys.path if place not in ("", here)), here]  # the order of `imported`
    invalidate_caches()
    for part in module.split("."):  # each by its last name: the full one would look for its package in `sys.modules`
        spec = PathFinder.find_spec(part, path) if part else None
        if spec is None:
            return []
        specs.append(spec)
        path = spec.submodule_search_locations or ()
    return specs


def _source(spec: ModuleSpec) -> bytes:
    """The content of a module's file; empty for what has none."""
    read = getattr(spec.loader, "get_data", None)
    return bytes(read(spec.origin)) if read is not None and spec.has_location else b""


def fingerprints(recipes: Sequence[Recipe | Any]) -> set[str]:
    """What tells recipes and the code they run from others: one of each recipe, one of each call with its modules."""
    texts = [to_yaml(recipe, type(recipe)).encode() for recipe in recipes]
    for call in code_of(recipes):
        content = map(_source, _specs(call.partition(":")[0]))
        texts.append(b"\0".join([call.encode(), *content]))
    return {hashlib.sha256(text).hexdigest() for text in texts}
