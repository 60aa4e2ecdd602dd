"""The help of a question, from its docstring: one text serves Python, the command line and recipes."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from typing import Any


def summary(kind: Any) -> str:
    """The first line of the docstring."""
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def fields(kind: Any) -> dict[str, str]:
    """What each field means, by its name."""
    _, _, rest = (inspect.getdoc(kind) or "").partition("Args:\n")
    described: dict[str, str] = {}
    for line in rest.split("\n"):
        if match := re.fullmatch(r"    (\w+): (.*)", line):
            described[match[1]] = match[2]
        elif line.startswith("        ") and described:
            described[list(described)[-1]] += f" {line.strip()}"
        elif line.strip():
            break
    return described


def defaults(kind: Any) -> dict[str, str]:
    """The default of each field as a recipe writes it; empty where the description states it."""
    return {each.name: _written(each.default) for each in dataclasses.fields(kind)}


def _written(default: Any) -> str:
    if default is dataclasses.MISSING or default is None:
        return ""
    if isinstance(default, tuple):
        return ",".join(map(_written, default))
    if isinstance(default, bool):
        return str(default).lower()
    return number_written(default) if isinstance(default, float) else str(default)


def number_written(value: float) -> str:
    """A number as a recipe writes it: levels of 8-bit images as fractions."""
    levels = round(255 * value) if math.isfinite(value) else 0
    return f"{levels}/255" if levels / 255 == value != round(value, 3) else f"{value:g}"
