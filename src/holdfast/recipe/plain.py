"""Dataclasses back to plain values: names and fields that `parse` reads as the same object."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import types
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import yaml
from torch import nn

from holdfast.checks import Check
from holdfast.hierarchy import Hierarchy
from holdfast.recipe.foreign import KEY, PLACE, Unresolved, place_of
from holdfast.recipe.schema import FAMILIES, hints_of
from holdfast.registry import Registry
from holdfast.types import Threat


def plain(value: Any, kind: Any) -> Any:
    """What a recipe would say for `value` in a field of type `kind`, all fields written out."""
    if value is None:
        return None
    if isinstance(value, Unresolved):
        return value.stated
    if kind in FAMILIES:
        return _named(value, FAMILIES[kind]) or _placed(value)
    arguments = [a for a in typing.get_args(kind) if a is not type(None)]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return plain(value, arguments[0])
    if typing.get_origin(kind) is tuple:
        kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
        return [plain(item, inner) for item, inner in zip(value, kinds, strict=True)]
    if dataclasses.is_dataclass(value):
        return _fields(value)
    return dict(value) if isinstance(value, Mapping) else value


def to_yaml(value: Any, kind: Any) -> str:
    """The recipe as a file."""
    return as_yaml(plain(value, kind))


def as_yaml(content: Any) -> str:
    """Plain values as a file."""
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)


def describe(check: Any, kind: Any) -> tuple[str, str, str]:
    """Method name, a readable label, and all fields as JSON; also for methods that no family knows.

    The label has what differs from the method's defaults, such as `pgd linf eps=8/255 steps=20`.
    """
    if isinstance(check, Unresolved):
        return KEY, json.dumps(check.stated, default=str), ""
    described = _named(check, FAMILIES[kind]) or _unregistered(check)
    ((method, fields),) = described.items() if isinstance(described, dict) else ((described, {}),)
    params = json.dumps(fields, sort_keys=True, default=str)
    prototype = FAMILIES[kind].get(method)
    return method, " ".join([method, *_remarkable(check, _fields_of_name(prototype))]), params


def _fields_of_name(prototype: Any) -> Mapping[str, Any]:
    """What the name of a prototype says of its fields, so that a label need not; every label has the threat."""
    if isinstance(prototype, type) or not dataclasses.is_dataclass(prototype):
        return {}
    return {f.name: getattr(prototype, f.name) for f in dataclasses.fields(prototype) if f.name != "threat"}


def _unregistered(check: Any) -> dict[str, Any]:
    """A method that no family knows, with its threat if it is an attack."""
    has_fields = dataclasses.is_dataclass(check)
    name = type(check).__name__ if has_fields else getattr(check, "__name__", type(check).__name__)
    fields = _fields(check) if has_fields else {"repr": printed(check), **_recorded(getattr(check, "__dict__", {}))}
    name = place_of(check) if name in FAMILIES[Check] else name
    if hasattr(check, "threat") and not {"threat", "attack"} & fields.keys():
        fields["threat"] = plain(check.threat, Threat)
    return {name: fields}


def _remarkable(value: Any, usual: Mapping[str, Any] = MappingProxyType({})) -> list[str]:
    """Fields of a method that are not at their default, or at what is `usual`, methods among them spelled out."""
    words = []
    for f in dataclasses.fields(value) if dataclasses.is_dataclass(value) else ():
        item = getattr(value, f.name)
        default = usual.get(f.name, f.default)
        if default is not dataclasses.MISSING and item == default:
            continue
        if isinstance(item, Hierarchy):
            words.append(f"{f.name}={item.digest[:8]}")  # all of it may be hundreds of names
        elif dataclasses.is_dataclass(item) and not isinstance(item, type):
            words += [type(item).__name__.lower(), *_remarkable(item)]
        elif isinstance(item, tuple) and item and all(map(dataclasses.is_dataclass, item)):
            each = [" ".join([type(one).__name__.lower(), *_remarkable(one)]) for one in item]
            words.append(" + ".join(each))
        elif isinstance(item, Mapping):
            words += [f"{key}={_option(item[key])}" for key in sorted(item)]
        else:
            words.append(f"{f.name}={'null' if item is None else _short(item)}")
    return words


def _option(value: Any) -> str:
    """A value that has no type of its own to tell 1 from '1'."""
    return _short(value) if isinstance(value, float) else json.dumps(value, sort_keys=True, default=str)


def _short(value: Any) -> str:
    if isinstance(value, float):
        levels = round(value * 255) if math.isfinite(value * 255) else 0
        if value != round(value, 3) and levels > 0 and levels / 255 == value:
            return f"{levels}/255"
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(getattr(value, "__name__", value))


def _named(value: Any, family: Registry[Any]) -> Any:
    """`name` for functions, `{name: fields}` for methods, None for those without; of several what changes least."""
    fitting: list[tuple[float, str]] = []
    for name, entry in family.usable(only_imported=True):
        if not dataclasses.is_dataclass(entry):
            if entry is value:
                return name
            continue
        if type(value) is (entry if isinstance(entry, type) else type(entry)):
            fitting.append((0 if isinstance(entry, type) else _differences(value, entry), name))
    return {min(fitting)[1]: _fields(value)} if fitting else None


def _placed(value: Any) -> Any:
    """A method without a name by its import path, as a recipe has third-party methods."""
    fields = _fields(value) if dataclasses.is_dataclass(value) else attributes_of(value)
    return {KEY: {PLACE: place_of(value), **{name: _recorded(one) for name, one in fields.items() if name != PLACE}}}


def attributes_of(value: Any) -> dict[str, Any]:
    """What an object that is no dataclass was made with; of a module without its weights, which checkpoints have."""
    if hasattr(value, "__qualname__"):
        return {}  # a function or class
    inherited = vars(nn.Module()) if isinstance(value, nn.Module) else {}
    return {name: one for name, one in getattr(value, "__dict__", {}).items() if name not in inherited}


def _recorded(value: Any) -> Any:
    """A value as a file can keep it; of an object of Python, what it prints."""
    if isinstance(value, Mapping):
        return {str(name): _recorded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_recorded(one) for one in value]
    if isinstance(value, bool | None):
        return value
    for kind in (int, float):  # files have no numbers of numpy and no members of enumerations
        if isinstance(value, kind):
            return kind(value)
    return str.__str__(value) if isinstance(value, str) else printed(value)


def printed(value: Any) -> str:
    """What an object prints, without its address, which is another one in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _differences(value: Any, entry: Any) -> float:
    """How many fields a value changes of a prototype; one that this leaves empty is filled, which counts half.

    Methods that a prototype consists of are what its name stands for: with others it is not that method at all.
    """
    pairs = [(getattr(value, f.name), getattr(entry, f.name)) for f in dataclasses.fields(value)]
    return sum(_weight(theirs) for mine, theirs in pairs if mine != theirs)


def _weight(field: Any) -> float:
    if field == ():
        return 0.5
    return 100.0 if isinstance(field, tuple) and dataclasses.is_dataclass(field[0]) else 1.0


def _fields(value: Any) -> dict[str, Any]:
    try:
        hints = hints_of(type(value))
    except NameError:  # third-party code that imported a type for annotations only
        hints = {}
    return {f.name: plain(getattr(value, f.name), hints.get(f.name)) for f in dataclasses.fields(value) if f.init}
