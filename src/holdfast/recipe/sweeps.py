"""Sweeps: `{each: [a, b]}` in a list of checks or corruptions stands for several of them."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from holdfast.checks import Check
from holdfast.errors import RecipeError, unknown
from holdfast.families import CHECKS
from holdfast.presets import PRESETS, preset
from holdfast.recipe.strict import parse
from holdfast.yaml_text import load_yaml

Path_ = tuple[str, ...]
Origins = Mapping[Path_, list[int]]
"""For each list of a recipe, where its members stood before sweeps were written out."""

MOST_SWEPT = 1_000
"""Checks that one member of a list may stand for."""

LISTS: tuple[Path_, ...] = (("checks",), ("epoch_checks",), ("train", "selection", "corruptions"))
"""Where sweeps may stand."""


def write_out_sweeps(content: dict[str, Any], file: Path) -> Origins:
    """Replace members of lists that stand for several by these."""
    origins = {}
    for path in LISTS:
        holder: Any = content
        for key in path[:-1]:
            holder = holder.get(key) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and isinstance(holder.get(path[-1]), dict | list):
            written = written_out(holder[path[-1]], f"{file}: {'.'.join(path)}")
            holder[path[-1]] = [one for _, one in written]
            origins[path] = [place for place, _ in written]
    return origins


def before_sweeps(path: Path_, origins: Origins) -> Path_:
    """A path in a recipe whose sweeps are written out, as the user has it."""
    for name, places in origins.items():
        rest = path[len(name) :]
        if path[: len(name)] == name and rest and rest[0].isdigit() and int(rest[0]) < len(places):
            return (*name, str(places[int(rest[0])]), *rest[1:])
    return path


def written_out(members: Any, where: str) -> list[tuple[int, Any]]:
    """Each member of a list, or a single one, once for every combination of the values in it, with its place before."""
    listed = members if isinstance(members, list) else [members]
    return [(place, one) for place, member in enumerate(listed) for one in _each(member, f"{where}.{place}")]


def read_checks(text: str, option: str = "checks") -> list[Check]:
    """The checks that a user means: the name of a preset, or one check or several in a recipe's notation.

    Args:
        text: such as `quick`, `clean`, `{pgd: {threat: {linf: 8/255}}}` or `[clean, {gaussian_noise: 0.1}]`.
        option: which option gave it, for messages.

    Raises:
        RecipeError: where it is neither.
    """
    if text in PRESETS:
        return preset(text)
    try:
        requested = load_yaml(text)
    except yaml.YAMLError:
        raise RecipeError(f"{option}: expected a preset or checks as a recipe has them; got {text!r}") from None
    if isinstance(requested, str) and requested not in CHECKS:
        raise RecipeError(f"{option}: {unknown(requested, [*PRESETS, *CHECKS])}")
    return parse_checks(requested, option)


def parse_checks(members: Any, option: str = "checks") -> list[Check]:
    """Checks in a recipe's notation, one or several, as plain values of the caller, whose code may be imported.

    Raises:
        RecipeError: where they are none.
    """
    written = [one for _, one in written_out(members, option)]
    checks: tuple[Check, ...] = parse(
        tuple[Check, ...], written, where=lambda path: ".".join((option, *path)), code_allowed=True
    )
    return list(checks)


def _each(member: Any, where: str) -> Iterator[Any]:
    sweeps = list(_sweeps(member, ()))
    for empty in (path for path, values in sweeps if not values):
        raise RecipeError(f"{where}.{'.'.join(map(str, empty))}.each: expected at least one value; got none")
    if (count := math.prod(len(values) for _, values in sweeps)) > MOST_SWEPT:
        raise RecipeError(f"{where}: expected at most {MOST_SWEPT} combinations; got {count}; leave some values out")
    for values in itertools.product(*[values for _, values in sweeps]):
        one = copy.deepcopy(member)
        for (path, _), value in zip(sweeps, values, strict=True):
            holder = one
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = value
        yield one


def _sweeps(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    if isinstance(value, dict) and set(value) == {"each"} and isinstance(value["each"], list) and path:
        yield path, value["each"]
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _sweeps(inner, (*path, key))
