"""JSON Schema of recipe files, so that editors can complete and check them."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

from holdfast.recipe.foreign import KEY, PLACE
from holdfast.recipe.parts import PARTS, Parts
from holdfast.recipe.schema import FAMILIES, Recipe, Seconds, hints_of
from holdfast.recipe.strict import is_switch

PLACED = {"type": "string", "pattern": "^[^:]+:[^:]+$"}
FOREIGN = {
    "description": "a third-party method, package.module:Name with its fields; it needs --trust",
    "anyOf": [PLACED, {"type": "object", "properties": {PLACE: PLACED}, "required": [PLACE]}],
}
NUMBER = {"type": ["number", "string"], "description": "a number, or a fraction such as 8/255"}
EACH = {
    "type": "object",
    "properties": {"each": {"type": "array"}},
    "required": ["each"],
    "additionalProperties": False,
    "description": "in checks, epoch_checks and selection.corruptions: one for each of these values",
}
RANGE: dict[str, Any] = {
    "type": "object",
    "required": ["search"],
    "properties": {
        "search": {"enum": ["uniform", "log", "int", "choice"]},
        "low": NUMBER,
        "high": NUMBER,
        "step": NUMBER,
        "values": {"type": "array", "minItems": 1},
    },
    "additionalProperties": False,
    "description": "for `holdfast search`: a range in the place of a value",
}
SIMPLE: dict[Any, dict[str, Any]] = {
    float: {"anyOf": [NUMBER, EACH, RANGE]},
    int: {"anyOf": [{"type": "integer"}, EACH, RANGE]},
    bool: {"anyOf": [{"type": "boolean"}, RANGE]},
    Seconds: {"type": ["number", "string"], "description": "seconds, or a time such as 90s, 10min or 1.5h"},
    str: {"anyOf": [{"type": "string"}, RANGE]},
}


def file_schema() -> dict[str, Any]:
    """The schema of a recipe file: a run, with variants and seeds, or with ranges for a search."""
    definitions: dict[str, Any] = {}
    run = _fields(Recipe, Recipe, definitions)
    parts = _schema(Parts, definitions)
    parts = {"anyOf": [parts, {"type": "null"}], "description": "make a HAR network of runs, one for each part"}
    changes = "the fields that this variant changes"
    variant = {"type": ["object", "null"], "properties": {PARTS: parts}, "description": changes}
    run["properties"]["variants"] = {"type": "object", "additionalProperties": variant}
    run["properties"]["search"] = {"type": "object", "description": "for `holdfast search`: what is best"}
    run["properties"]["seeds"] = {"type": "array", "items": {"type": "integer"}, "minItems": 1}
    run["required"] = ["data", "model"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "holdfast recipe",
        **run,
        "$defs": definitions,
    }


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field of type `kind`; families and groups become definitions."""
    if kind in FAMILIES:
        return _defined(_title(kind), lambda: _family(kind, definitions), definitions)
    if dataclasses.is_dataclass(kind):
        return _defined(_title(kind), lambda: _record(kind, kind, definitions), definitions)
    if kind in SIMPLE:
        return SIMPLE[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return {"anyOf": [{"enum": list(arguments)}, EACH, RANGE]}
    if origin in (typing.Union, types.UnionType):
        kinds = [a for a in arguments if a is not type(None)]
        nothing = {"type": ["null", "boolean"] if any(map(is_switch, kinds)) else "null"}
        return {"anyOf": [nothing, *[_schema(a, definitions) for a in kinds]]}
    if origin is tuple:
        item = _schema(arguments[0], definitions)
        return {"anyOf": [{"type": "array", "items": item}, item]}
    if origin is Mapping:
        return {"type": "object"}
    return {}


def _defined(title: str, make: typing.Callable[[], dict[str, Any]], definitions: dict[str, Any]) -> dict[str, Any]:
    if title not in definitions:
        definitions[title] = {}  # known from here on, in case it holds itself
        definitions[title] = make()
    return {"$ref": f"#/$defs/{title}"}


def _family(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """One name, alone or with its fields, or a sweep over several."""
    entries = {name: _entry(entry, definitions) for name, entry in FAMILIES[kind].usable()}
    by_path = {"anyOf": [FOREIGN, entries[KEY]]} if KEY in entries else FOREIGN
    properties = {**entries, KEY: by_path}
    named = {"type": "object", "properties": properties, "additionalProperties": False, "minProperties": 1}
    return {"anyOf": [{"enum": sorted(entries)}, {**named, "maxProperties": 1}, EACH, RANGE]}


def _entry(entry: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if isinstance(entry, type):
        return _record(entry, entry, definitions)
    if dataclasses.is_dataclass(entry):
        return _record(type(entry), entry, definitions)
    return {"type": ["object", "null"], "maxProperties": 0}


def _record(kind: Any, defaults: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Fields by name, nothing, or what stands for the first field."""
    whole = _fields(kind, defaults, definitions)
    hints = hints_of(kind)
    names = list(whole["properties"])
    first = [_schema(hints[names[0]], definitions)] if names else []
    return {"anyOf": [whole, *first, *([] if whole["required"] else [{"type": "null"}])]}


def _fields(kind: Any, defaults: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = hints_of(kind)
    own = [f for f in dataclasses.fields(kind) if f.init]
    missing = dataclasses.MISSING
    prototype = not isinstance(defaults, type)
    required = [f.name for f in own if not prototype and f.default is missing and f.default_factory is missing]
    return {
        "type": "object",
        "description": (inspect.getdoc(kind) or "").split("\n\n")[0],
        "properties": {f.name: _schema(hints[f.name], definitions) for f in own},
        "required": required,
        "additionalProperties": False,
    }


def _title(kind: Any) -> str:
    """Name of a definition; unions and callables have none of their own."""
    return str(getattr(kind, "__name__", "Check" if typing.get_origin(kind) is types.UnionType else "Loss"))
