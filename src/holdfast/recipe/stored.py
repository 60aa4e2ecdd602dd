"""Recipes as runs keep them, with all fields of their time written out.

A method that has got a field since then, whose default is not what it did before, says in a class attribute `former`
what it did: a stored recipe without the field means that. Values of a group in it count where the group is stored.
Fields that a method no longer has are in its class attribute `retired` and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.recipe.foreign import Unresolved
from holdfast.recipe.schema import FAMILIES, Recipe
from holdfast.recipe.strict import parse


def parse_stored(content: Any, *, where: Callable[[tuple[str, ...]], str]) -> Recipe:
    """The recipe that a run or a weights file keeps, with the meaning it had when it was written."""
    recipe: Recipe = parse(Recipe, with_former_values(content), where=where, stored=True)
    return recipe


def resolve_choice(choice: Unresolved, *, where: Callable[[tuple[str, ...]], str]) -> Any:
    """The method of a choice whose code may be imported."""
    stated = with_former_values(choice.stated, packages=True) if choice.stored else choice.stated
    return parse(choice.kind, stated, where=where, code_allowed=True)


def with_former_values(content: Any, *, packages: bool = False) -> Any:
    """The same plain recipe with the fields written out that its methods had no names for, and without retired ones.

    Args:
        content: plain values.
        packages: whether methods of installed packages are imported for what they had.
    """
    if isinstance(content, list):
        return [with_former_values(item, packages=packages) for item in content]
    if not isinstance(content, dict):
        return content
    inner = {name: with_former_values(value, packages=packages) for name, value in content.items()}
    return {
        name: _of_today(name, value, packages) if isinstance(value, dict) else value for name, value in inner.items()
    }


def _of_today(name: str, fields: dict[str, Any], packages: bool) -> dict[str, Any]:
    """The fields of a method, if this is the name of one."""
    for family in FAMILIES.values():
        if name in family and (packages or not family.package(name)):
            kept = {
                field: value for field, value in fields.items() if field not in getattr(family[name], "retired", ())
            }
            fields = _completed(kept, getattr(family[name], "former", {}))
    return fields


def _completed(fields: dict[str, Any], former: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with former values of those that are missing, and of those that are missing in groups."""
    groups = {name: _completed(fields[name], old) for name, old in former.items() if _are_groups(fields.get(name), old)}
    missing = {name: old for name, old in former.items() if not isinstance(old, Mapping)}
    return {**missing, **fields, **groups}


def _are_groups(*values: Any) -> bool:
    return all(isinstance(value, Mapping) for value in values)
