"""Code that recipes and weights files name, and whether the user lets it run.

A factory `package.module:make` could do anything, and what it does may depend on its options. So neither in a file is a
permission: that comes from the command line (`--trust`) or from the caller (`trust=True`), and from nothing that is
read.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.attacks import Transfer
from holdfast.ensembles import OfRuns
from holdfast.errors import CheckpointError, HoldfastError, RecipeError
from holdfast.models import Architecture
from holdfast.models.external import Python
from holdfast.recipe import Recipe, parse, to_yaml
from holdfast.runs.card import Card, path_of, read_card

REMEDY = "--trust (in Python, trust=True)"
"""How the user allows code to run."""


TrustedCode = bool | frozenset[str]
"""Which factories may be called: all, none, or those of these calls, as `call_of` writes them."""


def call_of(network: Python) -> str:
    """What tells calls of factories apart: its name, with the options as canonical JSON where there are any."""
    if not network.options:
        return network.factory
    return f"{network.factory} {json.dumps(_canonical(network.options), sort_keys=True, default=repr)}"


def _canonical(value: Any) -> Any:
    """Plain values in which keys that are no text cannot pass for text."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _canonical(one) for key, one in value.items()}
    if isinstance(value, Mapping):
        return {"mapping": sorted([repr(key), repr(one)] for key, one in value.items())}
    return [_canonical(one) for one in value] if isinstance(value, list | tuple) else value


def require_trust(
    architecture: Architecture, place: str, *, trust: TrustedCode, error: type[HoldfastError] = RecipeError
) -> None:
    """Refuse a network that a factory makes, unless the caller lets it run.

    Raises:
        HoldfastError: of the type `error`, with the remedy.
    """
    if not isinstance(architecture, Python):
        return
    call = call_of(architecture)
    if not (trust if isinstance(trust, bool) else call in trust):
        raise error(f"{place}: calls {call}, which could do anything; if you trust it, allow it with {REMEDY}")


def named_networks(card: Card) -> list[Architecture]:
    """The networks that a weights file names: its own, and those inside a composite."""
    inside = [base["model"] for base in card.bases.values() if "model" in base]
    return [card.recipe.model, *(parse(Architecture, model, where=lambda _: str(card.file)) for model in inside)]


def code_of(recipes: Sequence[Recipe]) -> dict[str, Path | None]:
    """Calls of factories that training and checking these recipes would make, with the file of each if it is found.

    Those of networks that a composite or a transferred attack takes from other runs are among them as soon as those
    runs exist.
    """
    calls = {call_of(network) for recipe in recipes for network in _networks(recipe) if isinstance(network, Python)}
    return {call: _file(call.partition(":")[0]) for call in sorted(calls)}


def _networks(recipe: Recipe) -> list[Architecture]:
    model: object = recipe.model
    sources = [check.source for check in recipe.checks if isinstance(check, Transfer)]
    if isinstance(model, OfRuns):
        sources += [path for path in (model.standard, model.robust) if path is not None]
    networks = [recipe.model]
    for source in sources:
        try:
            networks += named_networks(read_card(path_of(source, recipe.seed)))
        except (CheckpointError, RecipeError):
            continue  # not there yet; it is asked about again when it is read
    return networks


def _file(module: str) -> Path | None:
    """The file of a module, found as an import would find it, without importing anything."""
    parts, here = module.split("."), os.getcwd()
    for place in (*(place for place in sys.path if place not in ("", here)), here):  # the order of `Python`
        base = Path(place).joinpath(*parts)
        for file in (base / "__init__.py", base.with_suffix(".py")):
            if all(parts) and file.is_file():
                return file
    return None


def fingerprints(recipes: Sequence[Recipe]) -> set[str]:
    """What tells recipes and the code they run from others: one of each recipe, one of each call with its modules."""
    texts = [to_yaml(recipe, Recipe).encode() for recipe in recipes]
    for call, file in code_of(recipes).items():
        levels = call.partition(":")[0].count(".")
        around = [] if file is None else [*file.parents][: levels + 1]
        sources = [file, *(place / "__init__.py" for place in around)]
        content = [source.read_bytes() for source in sources if source is not None and source.is_file()]
        texts.append(b"\0".join([call.encode(), *content]))
    return {hashlib.sha256(text).hexdigest() for text in texts}
