"""Recipes as runs keep them, with all fields of their time written out.

A method that has got a field since then, whose default is not what it did before, says in a class attribute `former`
what it did: a stored recipe without the field means that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.recipe.schema import FAMILIES, Recipe
from holdfast.recipe.strict import parse

FORMER: dict[str, Mapping[str, Any]] = {
    name: kind.former for family in FAMILIES.values() for name, kind in family.items() if hasattr(kind, "former")
}
"""By the name of a method: values of fields that it did not have."""


def parse_stored(content: Any, *, where: Callable[[tuple[str, ...]], str]) -> Recipe:
    """The recipe that a run or a weights file keeps, with the meaning it had when it was written."""
    recipe: Recipe = parse(Recipe, with_former_values(content), where=where)
    return recipe


def with_former_values(content: Any) -> Any:
    """The same plain recipe with the fields written out that its methods had no names for."""
    if isinstance(content, list):
        return [with_former_values(item) for item in content]
    if not isinstance(content, dict):
        return content
    inner = {name: with_former_values(value) for name, value in content.items()}
    return {
        name: {**FORMER[name], **value} if name in FORMER and isinstance(value, dict) else value
        for name, value in inner.items()
    }
