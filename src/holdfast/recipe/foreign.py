"""Third-party methods in a recipe, `python: {at: package.module:Name, ...}`: kept as names until the user allows them.

What a file says is read as an `Unresolved` choice, of which nothing is imported. `resolved` turns it into the method;
whoever calls it has asked for the user's permission first (`holdfast.runs.code`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import RecipeError
from holdfast.registry import RESERVED, imported, installed, require_usable

KEY, PLACE = RESERVED, "at"
"""The name that stands for third-party code in every family, and the key of its import path beside the fields."""


@dataclass(frozen=True)
class Unresolved:
    """A choice that names third-party code, itself or in one of its fields; nothing of it is imported.

    Args:
        kind: the family that it is of.
        stated: what the recipe has there, as plain values.
        stored: whether a file of results has it, perhaps of a time when the method had other fields.
    """

    kind: Any
    stated: Any
    stored: bool = False


def names_code(stated: Any) -> bool:
    """Whether plain values name third-party code anywhere."""
    return any(True for _ in code_in(stated))


def code_in(stated: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every `package.module:Name` in plain values, with the fields beside it."""
    if isinstance(stated, list | tuple):
        for one in stated:
            yield from code_in(one)
    if not isinstance(stated, Mapping):
        return
    for key, inner in stated.items():
        if key == KEY:
            yield place_and_fields(inner)
        yield from code_in(inner)


def names_package(stated: Any) -> bool:
    """Whether plain values have a name of an installed package anywhere; such a name may mean something else there."""
    if isinstance(stated, Mapping):
        return any(names_package(key) or names_package(inner) for key, inner in stated.items())
    if isinstance(stated, list | tuple):
        return any(map(names_package, stated))
    return isinstance(stated, str) and any(stated in names for names in installed().values())


def place_and_fields(stated: Any) -> tuple[str, Mapping[str, Any]]:
    """The import path of a method and its fields.

    Raises:
        RecipeError: if it is neither `package.module:Name` nor a mapping with that beside the fields.
    """
    fields = {PLACE: stated} if isinstance(stated, str) else stated
    place = fields.get(PLACE, fields.get("factory")) if isinstance(fields, Mapping) else None
    if not isinstance(place, str) or not all(place.partition(":")):
        raise RecipeError(f"{KEY}: expected {PLACE}: package.module:Name, with the fields of the method beside it")
    return place, {key: value for key, value in fields.items() if key != PLACE}


def method_at(place: str) -> Any:
    """The class, instance or function there; the caller has permission to import it.

    Raises:
        RecipeError: if it cannot be imported, or is not what a recipe can use.
    """
    entry = require_usable(imported(place), place)
    if dataclasses.is_dataclass(entry) and PLACE in {each.name for each in dataclasses.fields(entry)}:
        raise RecipeError(
            f"'{place}' has a field '{PLACE}', which is where it comes from in a recipe; rename the field"
        )
    return entry


def place_of(value: Any) -> str:
    """Where a method is defined, as a recipe would name it."""
    own = value if hasattr(value, "__qualname__") else type(value)
    return f"{own.__module__}:{own.__qualname__}"
