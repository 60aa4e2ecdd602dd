"""Strict reading: plain values to frozen dataclasses, through pydantic models made from their fields.

A field typed with a protocol (`Threat`, `Attack`, ...) is a choice by name: `pgd`, `{pgd: {steps: 20}}`, and, where the
first field is all there is to say, `{linf: 8/255}`. An optional group whose fields have defaults may be `true`.
A choice that names third-party code (`python: ...`) stays `Unresolved` unless the caller states that it is allowed.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Annotated, Any, Final, cast

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationInfo, create_model
from pydantic import ValidationError as PydanticError
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import PydanticCustomError

from holdfast.errors import HoldfastError, RecipeError, unknown
from holdfast.promises import broken_promise
from holdfast.questions.promises import broken_question
from holdfast.questions.question import Question
from holdfast.recipe.foreign import KEY, PLACE, Unresolved, method_at, names_code, names_package, place_and_fields
from holdfast.recipe.schema import FAMILIES, Seconds, hints_of
from holdfast.recipe.values import as_number, as_options, as_seconds, as_sequence, in_short, problem_at
from holdfast.registry import one_line
from holdfast.types import Architecture

REMEDIES = {
    "trust": "; a file cannot allow code to run: use --trust (in Python, trust=True)",
    "storage": "; a file cannot name a database to write to: use --storage or HOLDFAST_STORAGE",
}
"""What to do instead of a key that users may look for."""


def parse(
    kind: Any,
    value: Any,
    *,
    where: Callable[[tuple[str, ...]], str] | None = None,
    code_allowed: bool = False,
    stored: bool = False,
) -> Any:
    """Read a plain value as `kind`: a dataclass, or a family such as `Attack`.

    Args:
        kind: what is expected.
        value: dictionaries, lists, numbers and strings.
        where: names the place of a path, such as file and line.
        code_allowed: whether third-party code that the value names may be imported; without it such choices are
            `Unresolved`.
        stored: whether a file of results says it: then choices of packages, installed or not, are `Unresolved`, too,
            since much can be done without them.

    Raises:
        RecipeError: one line with place, what was expected and what came.
    """
    try:
        return _adapter(kind).validate_python(value, context=_Reading(code_allowed, stored))
    except PydanticError as error:
        path, sentence = _first_problem(error)
        place = where(tuple(map(str, path))) if where else ".".join(map(str, path))
        raise RecipeError(f"{place}: {sentence}" if place else sentence) from None


@dataclass(frozen=True)
class _Reading:
    """How a value is read; see `parse`."""

    code_allowed: bool
    stored: bool


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(_annotation(kind))


def _annotation(kind: Any) -> Any:
    """The pydantic type that reads a field of type `kind`."""
    if kind in FAMILIES:
        return Annotated[Any, BeforeValidator(partial(_choose, kind))]
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _record(kind, kind)
    if kind is float:
        return Annotated[float, BeforeValidator(as_number)]
    if kind is Seconds:
        return Annotated[float, BeforeValidator(as_seconds)]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        (inner,) = [a for a in arguments if a is not type(None)]
        optional = _annotation(inner) | None
        return Annotated[optional, BeforeValidator(_switched)] if is_switch(inner) else optional
    if origin is tuple:
        items = tuple(a if a is Ellipsis else _annotation(a) for a in arguments)
        return Annotated[tuple[items], BeforeValidator(as_sequence)]  # type: ignore[valid-type]
    if origin is Mapping:
        return Annotated[kind, AfterValidator(as_options)]
    return kind


def _record(kind: Any, build: Callable[..., Any], *, partly: bool = False) -> Any:
    """A mapping of the dataclass's fields, or only its first field's value.

    Args:
        kind: the dataclass.
        build: makes the object of the fields that were given.
        partly: whether fields without a default may be missing, since `build` knows them.
    """
    hints = hints_of(kind)
    own = [f for f in dataclasses.fields(kind) if f.init]
    required = [f.name for f in own if not partly and _required(f)]
    fields: dict[str, Any] = {
        f.name: (_annotation(hints[f.name]), Field(default=... if f.name in required else None)) for f in own
    }
    model = create_model(kind.__name__, __config__=ConfigDict(extra="forbid", strict=True), **fields)

    def construct(read: Any) -> Any:
        try:
            return build(**{name: getattr(read, name) for name in read.model_fields_set})
        except HoldfastError as error:
            raise ValueError(error) from None  # so that it gets its place

    names = [f.name for f in own]
    first = hints[names[0]] if names else None
    return Annotated[model, BeforeValidator(partial(_expanded, names, first)), AfterValidator(construct)]


def is_switch(kind: Any) -> bool:
    """Whether a field that may be left out takes yes or no: a group of fields with defaults, the first no yes or no."""
    own = [f for f in dataclasses.fields(kind) if f.init] if dataclasses.is_dataclass(kind) else []
    return bool(own) and not any(map(_required, own)) and hints_of(kind)[own[0].name] is not bool


def _switched(value: Any) -> Any:
    """`true` for a group with its defaults, `false` for none."""
    return {True: {}, False: None}[value] if isinstance(value, bool) else value


@cache
def _entry(kind: Any, name: str) -> TypeAdapter[Any]:
    """The entry of a name in a family: fields of a class, changes to an instance, or nothing for a function.

    Made when the name is first used, so that a method may hold another of its own family.
    """
    return _reader(FAMILIES[kind][name], name)


@cache
def _foreign_entry(place: str) -> TypeAdapter[Any]:
    """The same for a third-party method, which is imported here."""
    return _reader(method_at(place), place)


def _reader(entry: Any, name: str) -> TypeAdapter[Any]:
    try:
        if isinstance(entry, type):
            return TypeAdapter(_record(entry, entry))
        if dataclasses.is_dataclass(entry):
            change: Any = dataclasses.replace
            return TypeAdapter(_record(type(entry), partial(change, entry), partly=True))
    except (NameError, PydanticSchemaGenerationError) as error:
        line = str(error).partition("\n")[0]
        raise RecipeError(f"expected fields of types that a recipe can state; '{name}' has others ({line})") from error
    nothing: Any = create_model(name, __config__=ConfigDict(extra="forbid"))
    return TypeAdapter(Annotated[nothing, AfterValidator(lambda _: entry)])


def _choose(kind: Any, value: Any, info: ValidationInfo) -> Any:
    """One name of a family, with its fields; an object from Python is taken as it is if it satisfies the protocol."""
    if _is_object(value):
        return _require_protocol(kind, value)
    if isinstance(value, str):
        value = {value: {}}
    if not isinstance(value, Mapping) or len(value) != 1:
        names = sorted(FAMILIES[kind])
        got = f"{len(value)} names ({', '.join(map(str, value))})" if isinstance(value, Mapping) else in_short(value)
        raise problem_at(
            f"expected one name with its fields, such as '{names[0]}'; got {got}; known: {', '.join(names)}"
        )
    ((name, fields),) = value.items()
    reading = cast(_Reading, info.context)
    optional = reading.stored and kind not in NEEDED
    if optional and names_package(value):
        return Unresolved(kind, value, stored=True)
    try:
        return _read(kind, name, fields, reading)
    except PydanticCustomError as error:
        if optional and error.type == UNAVAILABLE:
            return Unresolved(kind, value, stored=True)
        raise


def _read(kind: Any, name: Any, fields: Any, reading: _Reading) -> Any:
    """The entry of a name, read; an error names its place."""
    by_path = _is_by_path(kind, name, fields)
    third_party = by_path or bool(FAMILIES[kind].package(name))
    try:
        if not reading.code_allowed and names_code({name: fields} if by_path else fields):
            return Unresolved(kind, {name: fields}, reading.stored)
        path, fields = place_and_fields(fields) if by_path else ("", {} if fields is None else fields)
        reader = _foreign_entry(path) if by_path else _entry(kind, name)
        method = reader.validate_python(fields, context=replace(reading, stored=False))
    except HoldfastError as error:
        raise problem_at(str(error), name, type_=UNAVAILABLE) from None
    except PydanticError as error:
        raise _of_field(error, name, path) from None
    except Exception as error:
        if third_party:
            raise problem_at(one_line(error), name) from error
        raise
    return _require_protocol(kind, method, name) if third_party else method


def _is_by_path(kind: Any, name: Any, fields: Any) -> bool:
    """Whether a choice is an import path, instead of a name of the family."""
    registered = name in FAMILIES[kind]
    if name == KEY and (not registered or (isinstance(fields, Mapping) and PLACE in fields)):
        return True
    if not registered:
        raise problem_at(unknown(name, FAMILIES[kind]), type_=UNAVAILABLE)
    return False


def _of_field(error: PydanticError, name: Any, import_path: str) -> PydanticCustomError:
    """What is wrong with a field of a method; where it is a missing threat, with an example.

    Args:
        error: of all fields.
        name: that the method is chosen by.
        import_path: of a method that is chosen by it; empty for others.
    """
    path, sentence = _first_problem(error)
    kind = error.errors(include_url=False)[0]["type"]
    if path == ("threat",) and kind == "missing":
        beside = f"{PLACE}: {import_path}, " if import_path else ""
        sentence += f"; write, for example, {{{name}: {{{beside}threat: {{linf: 8/255}}}}}}"
    return problem_at(sentence, name, *path, type_=UNAVAILABLE if kind == UNAVAILABLE else OTHER)


def _is_object(value: Any) -> bool:
    """Whether a value is no plain one, as files have them."""
    return not isinstance(value, str | int | float | Mapping | list | tuple | None)


def _require_protocol(kind: Any, value: Any, *key: Any) -> Any:
    """An object of Python, or a method at a key, that satisfies the protocol of a family."""
    problem = broken_question(value) if kind is Question else broken_promise(kind, value)
    if problem:
        raise problem_at(problem, *key)
    return value


def _expanded(names: list[str], first: Any, value: Any) -> Any:
    """Fields by name; or the first field's value, or one name of its family in place of the whole."""
    if isinstance(value, Mapping):
        strange = [key for key in value if key not in names]
        if strange and len(value) == 1 and first in FAMILIES and (strange[0] in FAMILIES[first] or strange[0] == KEY):
            return {names[0]: value}
        if strange:
            raise problem_at(unknown(strange[0], names) + _remedy(str(strange[0]), names), strange[0])
        return value
    if not names:
        raise problem_at(f"expected no fields; got {in_short(value)}")
    return {names[0]: value}


def _required(f: dataclasses.Field[Any]) -> bool:
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def _first_problem(error: PydanticError) -> tuple[tuple[Any, ...], str]:
    """Path and sentence of the first thing that is wrong."""
    first: Any = error.errors(include_url=False)[0]
    path = (*first["loc"], *first.get("ctx", {}).get("key", ()))
    if first["type"] == "missing":
        return path, "expected a value; got nothing"
    if first["type"] == "value_error":
        return path, str(first["ctx"]["error"])
    if first["type"] in (OTHER, UNAVAILABLE):
        return path, str(first["msg"])
    return path, f"{first['msg'].replace('Input should be', 'expected')}; got {in_short(first['input'])}"


OTHER: Final = "problem"
UNAVAILABLE: Final = "unavailable"
"""What is wrong: the value, or that nothing here has its name."""

NEEDED = (Architecture,)
"""Families without whose methods nothing can be done with what is stored."""


def _remedy(key: str, names: Collection[str]) -> str:
    """What to do instead of a key that is no field; dots lead into a mapping on the command line only."""
    first, dot, rest = key.partition(".")
    return f" Write {first}: {{{rest}: ...}}." if dot and first in names else REMEDIES.get(key, "")
