"""Everything that a command prints goes through here: foreign names cannot steer a terminal, JSON is strict."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import typer

CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # all but tab and line feed
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # invisible, or turning the direction of what follows
    "\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"  # halves of characters, annotations, tags
)


def visible(text: str) -> str:
    r"""The text with every control character written out, such as `\x1b` or `\u202e`."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    r"""A name or a cell: tabs and line feeds are written out as well."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text for people."""
    typer.echo(visible(text), err=err, nl=nl)


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
