"""Strict reading: plain values to frozen dataclasses, through pydantic models made from their fields.

A field typed with a protocol (`Threat`, `Attack`, ...) is a choice by name: `pgd`, `{pgd: {steps: 20}}`, and, where the
first field is all there is to say, `{linf: 8/255}`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, TypeAdapter, create_model
from pydantic import ValidationError as PydanticError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from holdfast.errors import RecipeError, unknown
from holdfast.recipe.plain import plain
from holdfast.recipe.schema import FAMILIES

EACH = {"type": "object", "properties": {"each": {"type": "array"}}, "required": ["each"], "maxProperties": 1}
"""A sweep, `{each: [0.1, 0.2]}`, as the checks of a recipe file may hold it."""


def parse(kind: Any, value: Any, *, where: Callable[[tuple[str, ...]], str] | None = None) -> Any:
    """Read a plain value as `kind`: a dataclass, or a family such as `Attack`.

    Args:
        kind: what is expected.
        value: dictionaries, lists, numbers and strings.
        where: names the place of a path, such as file and line.

    Raises:
        RecipeError: one line with place, what was expected and what came.
    """
    try:
        return _adapter(kind).validate_python(value)
    except PydanticError as error:
        first = error.errors(include_url=False)[0]
        path = tuple(str(part) for part in (*first["loc"], *first.get("ctx", {}).get("key", ())))
        place = where(path) if where else ".".join(path)
        raise RecipeError(f"{place}: {_sentence(first)}" if place else _sentence(first)) from None


def json_schema(kind: Any) -> dict[str, Any]:
    """JSON Schema of what `parse` accepts, for editors."""
    return _adapter(kind).json_schema(schema_generator=GenerateJsonSchema)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(_annotation(kind))


def _annotation(kind: Any) -> Any:
    """The pydantic type that reads a field of type `kind`."""
    if kind in FAMILIES:
        return _choice(kind)
    if dataclasses.is_dataclass(kind):
        return _record(kind, _defaults(kind))
    if kind is float:
        return Annotated[float, BeforeValidator(_number), _Shape({"anyOf": [{"type": ["number", "string"]}, EACH]})]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments)
    if origin is tuple:
        inner = tuple(a if a is Ellipsis else _annotation(a) for a in arguments)
        return Annotated[tuple[inner], BeforeValidator(_sequence)]  # type: ignore[valid-type]
    return kind


def _union(arguments: tuple[Any, ...]) -> Any:
    (inner,) = [a for a in arguments if a is not type(None)]
    return _annotation(inner) | None


@dataclasses.dataclass(frozen=True, eq=False)
class _Shape:
    """Adds what the JSON Schema of a value should say beside its type."""

    shape: Mapping[str, Any] | None = None
    also: tuple[Mapping[str, Any], ...] = ()

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        if self.shape is not None:
            return dict(self.shape)
        inner = handler(schema)
        return {"anyOf": [*map(dict, self.also), inner]} if self.also else inner


def _record(kind: Any, defaults: Mapping[str, Any], build: Callable[..., Any] | None = None) -> Any:
    """A mapping of the dataclass's fields, or only its first field's value."""
    build = build or kind
    hints = typing.get_type_hints(kind)
    names = [f.name for f in dataclasses.fields(kind) if f.init]
    fields: dict[str, Any] = {}
    for name in names:
        default = plain(defaults[name], hints[name]) if name in defaults else ...
        fields[name] = (_annotation(hints[name]), Field(default=default))
    model = create_model(kind.__name__, __config__=ConfigDict(extra="forbid", strict=True), **fields)

    def construct(read: Any) -> Any:
        return build(**{name: getattr(read, name) for name in read.model_fields_set})

    family = FAMILIES.get(hints[names[0]], {}) if names else {}
    short: list[dict[str, Any]] = [{"type": ["number", "string"]}] if names else []
    if family:
        short.append({"type": "object", "propertyNames": {"enum": sorted(family)}, "maxProperties": 1})
    first = BeforeValidator(partial(_first_field, names, family))
    return Annotated[model, first, AfterValidator(construct), _Shape(also=tuple(short))]


def _choice(kind: Any) -> Any:
    """One name of a family, with its fields."""
    family = FAMILIES[kind]
    entries = {f"choice{number}": name for number, name in enumerate(family)}
    fields: dict[str, Any] = {
        field: (_entry(family[name]), Field(default=None, alias=name)) for field, name in entries.items()
    }
    model = create_model(_title(kind), __config__=ConfigDict(extra="forbid", strict=True), **fields)

    def pick(read: Any) -> Any:
        (field,) = read.model_fields_set
        return getattr(read, field)

    names = sorted(family)
    return Annotated[
        model, BeforeValidator(partial(_one_name, names)), AfterValidator(pick), _Shape(also=({"enum": names},))
    ]


def _entry(entry: Any) -> Any:
    """What stands under a name: fields of a class, changes to an instance, or nothing for a function."""
    if isinstance(entry, type):
        return _record(entry, _defaults(entry))
    if dataclasses.is_dataclass(entry):
        defaults = {f.name: getattr(entry, f.name) for f in dataclasses.fields(entry)}
        change: Any = dataclasses.replace
        return _record(type(entry), defaults, partial(change, entry))
    empty = create_model(entry.__name__, __config__=ConfigDict(extra="forbid"))
    return Annotated[empty, AfterValidator(lambda _: entry)]


def _defaults(kind: Any) -> dict[str, Any]:
    """Default values of a dataclass's fields."""
    found = {}
    for f in dataclasses.fields(kind):
        if f.default is not dataclasses.MISSING:
            found[f.name] = f.default
        elif f.default_factory is not dataclasses.MISSING:
            found[f.name] = f.default_factory()
    return found


def _one_name(names: list[str], value: Any) -> Any:
    if isinstance(value, str):
        value = {value: {}}
    if not isinstance(value, Mapping) or len(value) != 1:
        came = f"{len(value)} names ({', '.join(map(str, value))})" if isinstance(value, Mapping) else _came(value)
        raise _custom(f"expected one name with its fields, such as '{names[0]}'; got {came}; known: {', '.join(names)}")
    ((name, fields),) = value.items()
    if name not in names:
        raise _custom(unknown(name, names))
    return {name: {} if fields is None else fields}


def _first_field(names: list[str], family: Mapping[str, Any], value: Any) -> Any:
    """Fields by name; or the first field's value, or one name of its family, standing for the whole."""
    if isinstance(value, Mapping):
        strange = [key for key in value if key not in names]
        if strange and len(value) == 1 and strange[0] in family:
            return {names[0]: value}
        if strange:
            raise _custom(unknown(strange[0], names), strange[0])
        return value
    if not names:
        raise _custom(f"expected no fields; got {_came(value)}")
    return {names[0]: value}


def _number(value: Any) -> Any:
    """Numbers, also written as a fraction or in the scientific notation that YAML takes for text."""
    if isinstance(value, str):
        try:
            parts = [float(part) for part in value.split("/")]
            value = parts[0] / parts[1] if len(parts) == 2 else parts[0] if len(parts) == 1 else value
        except (ValueError, ZeroDivisionError):
            pass
    if isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, float):
        raise _custom(f"expected a number or a fraction such as 8/255; got {_came(value)}")
    return value


def _sequence(value: Any) -> Any:
    """A tuple; one value alone counts as a list of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _sentence(error: Any) -> str:
    """What was expected and what came."""
    kind, came = error["type"], _came(error["input"])
    if kind == "missing":
        return "expected a value; got nothing"
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if kind == "custom":
        return str(error["msg"])
    return f"{error['msg'].replace('Input should be', 'expected')}; got {came}"


def _came(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def _custom(sentence: str, *key: Any) -> PydanticCustomError:
    """An error with its own sentence, at a key of the value or at the value itself."""
    return PydanticCustomError("custom", "{sentence}", {"sentence": sentence, "key": key})


def _title(kind: Any) -> str:
    return str(getattr(kind, "__name__", "Loss"))
