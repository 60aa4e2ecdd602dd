"""Plain values of recipes: numbers, times, lists and options, and what is wrong with one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic_core import PydanticCustomError


def as_number(value: Any) -> Any:
    """Numbers, also written as a fraction or in the scientific notation that YAML takes for text."""
    if isinstance(value, str):
        try:
            parts = [float(part) for part in value.split("/")]
            value = parts[0] / parts[1] if len(parts) == 2 else parts[0] if len(parts) == 1 else value
        except (ValueError, ZeroDivisionError):
            pass
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1023:
        value = float(value)
    if not isinstance(value, float):
        raise problem_at(f"expected a number or a fraction such as 8/255; got {in_short(value)}")
    return value


MOST_SECONDS = 1e12
UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Units of time in seconds."""


def as_seconds(value: Any) -> Any:
    """A time span: seconds, or a number with its unit."""
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]*)\s*", value)):
        value = float(match[1]) * UNITS.get(match[2] or "s", math.nan)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MOST_SECONDS:
        raise problem_at(f"expected a time such as 90s, 10min or 1.5h; got {in_short(value)}")
    return float(value)


def as_options(value: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of somebody else's function: fractions, and numbers that YAML takes for text, become numbers."""
    return {key: as_number(item) if _is_written_number(item) else item for key, item in value.items()}


def _is_written_number(value: Any) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"[-+]?\d*\.?\d+(/\d*\.?\d+|[eE][-+]?\d+)", value))


def as_sequence(value: Any) -> Any:
    """A tuple; one value alone counts as a list of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def problem_at(sentence: str, *key: Any, type_: Literal["problem", "unavailable"] = "problem") -> PydanticCustomError:
    """An error with its own sentence, at a key below the value or at the value itself."""
    printable = sentence.encode("utf-8", "backslashreplace").decode()  # pydantic prints what it is given
    return PydanticCustomError(type_, "{sentence}", {"sentence": printable, "key": key})


def in_short(value: Any) -> str:
    """A value and its type, for messages."""
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
