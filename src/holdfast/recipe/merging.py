"""Contents of recipes on top of each other: what a variant changes, and groups of fields in shorthand."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from holdfast.recipe.foreign import KEY
from holdfast.recipe.schema import FAMILIES, hints_of
from holdfast.registry import Registry


def merged(base: Any, over: Any, kind: Any) -> Any:
    """`over` on top of `base`: groups are merged field by field, choices and values are replaced."""
    if base is None or over is None or not is_dataclass(kind):
        return over
    hints = hints_of(kind)
    result = dict(opened(base, kind))
    for key, value in opened(over, kind).items():
        result[key] = merged(result[key], value, hints.get(key)) if key in result else value
    return result


def copied(value: Any) -> Any:
    """Mappings and lists anew, all the way down, with the same leaves: parts of a file may be the same object."""
    if isinstance(value, dict):
        return {key: copied(below) for key, below in value.items()}
    return [copied(below) for below in value] if isinstance(value, list) else value


def opened(value: Any, kind: Any) -> dict[Any, Any]:
    """A value as a mapping, its shorthand written out."""
    first = fields(kind)[0].name if is_dataclass(kind) and fields(kind) else None
    if isinstance(value, dict):
        family = FAMILIES.get(hints_of(kind)[first]) if first else None
        return (
            {first: value} if family is not None and len(value) == 1 and _chooses(next(iter(value)), family) else value
        )
    if value is None:
        return {}
    return {value: {}} if first is None else {first: value}


def _chooses(key: Any, family: Registry[Any]) -> bool:
    return key in family or key == KEY
