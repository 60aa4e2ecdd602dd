"""Everything that a command prints goes through here: foreign names cannot steer a terminal, JSON is strict."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import typer

from holdfast.show.text import one_line, visible


def echo(text: str, *, err: bool = False) -> None:
    """Print a line for people; names in it cannot begin another."""
    typer.echo(one_line(text), err=err)


def echo_lines(text: str) -> None:
    """Print a text of several lines, as it ends."""
    typer.echo(visible(text), nl=False)


def echo_json(value: Any, *, indent: int | None = None, spelled: bool = False) -> None:
    """Print for machines.

    Args:
        value: plain values.
        indent: of the lines; None for one line.
        spelled: write infinities as `"inf"`, which recipes take for a number; otherwise they are null, as NaN is.
    """
    typer.echo(json.dumps(strict(value, spelled=spelled), indent=indent, allow_nan=False))


def strict(value: Any, *, spelled: bool = False) -> Any:
    """The value without numbers that JSON does not know; see `echo_json`."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value) if spelled and math.isinf(value) else None
    if isinstance(value, Mapping):
        return {key: strict(one, spelled=spelled) for key, one in value.items()}
    return [strict(one, spelled=spelled) for one in value] if isinstance(value, list | tuple) else value
