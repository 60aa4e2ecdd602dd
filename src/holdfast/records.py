"""Frozen dataclasses from plain values of a file, each field of the type that it is declared to have."""

from __future__ import annotations

import re
import typing
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

Kind = TypeVar("Kind")
WORDS = {"Input should be": "expected", "a valid dictionary": "an object", "valid integer": "whole number",
         "a valid ": "a "}  # fmt: skip
"""Pydantic's words and ours."""
LONGEST = 60
"""Characters of a wrong value in a message."""


def parse_record(kind: type[Kind], value: Any) -> Kind:
    """An object of a dataclass.

    Args:
        kind: the dataclass.
        value: its fields by name; whole numbers do for floats, and nothing else is converted.

    Raises:
        ValueError: in one line, naming the first field that is missing, unknown or of another type.
    """
    dataclass: Any = kind
    checked = check_fields(_fields_of(dataclass), value)
    return kind(**{name: getattr(checked, name) for name in checked.model_fields_set})


def check_fields(model: type[BaseModel], value: Any) -> BaseModel:
    """The fields of a model, once they are known to have their types.

    Raises:
        ValueError: in one line, naming the first that has not.
    """
    if not isinstance(value, dict):
        raise ValueError(f"expected an object; got {_shortened(value)}")
    try:
        return model.model_validate(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        expected = re.sub(" or instance of \\w+", "", first["msg"])
        for theirs, ours in WORDS.items():
            expected = expected.replace(theirs, ours)
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {expected}; got {_shortened(first['input'])}") from None


@cache
def _fields_of(kind: Any) -> type[BaseModel]:
    """The fields of a dataclass as a model."""
    hints = typing.get_type_hints(kind)
    required = {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(kind)}
    types: dict[str, Any] = {name: (hints[name], ... if needed else None) for name, needed in required.items()}
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, protected_namespaces=())
    model: type[BaseModel] = create_model(kind.__name__, __config__=config, **types)
    return model


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
