"""Methods that take the hierarchy of the data: a field `hierarchy`, None until somebody knows the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from holdfast.errors import RecipeError
from holdfast.hierarchy.levels import Border, Hierarchy

Method = TypeVar("Method")


def with_hierarchy(method: Method, hierarchy: Hierarchy | None, place: str = "") -> Method:
    """The method, and the methods in it, on the hierarchy of the data where they state none of their own.

    Args:
        method: whose field `hierarchy` may be None: an attack, a certifier, an objective, a network, or several.
        hierarchy: of the data.
        place: where the method is, for the message.

    Raises:
        RecipeError: if a method needs a hierarchy and there is none.
    """
    changed: dict[str, Any] = {}
    for name, value in _parts(method):
        if name == "hierarchy" and value is None:
            if hierarchy is None:
                where = ": ".join(filter(None, [place, type(method).__name__]))
                raise RecipeError(f"{where}: expected data with a hierarchy, such as data.hierarchy: cifar10; got none")
            changed[name] = hierarchy
        elif (bound := with_hierarchy(value, hierarchy, place)) is not value:
            changed[name] = bound
    if not changed:
        return method
    if isinstance(method, tuple):
        return tuple(changed.get(name, value) for name, value in _parts(method))  # type: ignore[return-value]
    return replace(method, **changed)  # type: ignore[type-var]


def needs_hierarchy(method: Any) -> bool:
    """Whether a method, or one in it, takes the hierarchy of the data."""
    return any((name == "hierarchy" and value is None) or needs_hierarchy(value) for name, value in _parts(method))


def border_of(method: Any) -> Border:
    """The border that the fields `level` and `severity` of a method choose in its `hierarchy`.

    Raises:
        RecipeError: if the hierarchy is not known yet, or has no such border.
    """
    if method.hierarchy is None:
        name = type(method).__name__
        raise RecipeError(f"{name}: expected a hierarchy; got None, which stands for that of the data")
    chosen: Border = method.hierarchy.border(method.level, method.severity)
    return chosen


def check_border(method: Any) -> None:
    """Refuse a level beside a severity, and a border that a hierarchy which is known does not have."""
    if method.level is not None and method.severity is not None:
        raise ValueError(f"expected a level or a severity; got '{method.level}' and {method.severity:g}")
    if method.hierarchy is not None:
        border_of(method)


def _parts(method: Any) -> Iterator[tuple[str, Any]]:
    """Members of a tuple, or fields of a method."""
    if isinstance(method, tuple):
        yield from ((str(number), one) for number, one in enumerate(method))
    elif is_dataclass(method) and not isinstance(method, type | Hierarchy):
        yield from ((one.name, getattr(method, one.name)) for one in fields(method) if one.init)
