"""JSON from strangers: whatever is wrong with a text is one `ValueError`; others can take its numbers and texts."""

from __future__ import annotations

import json
import re
from typing import Any

LARGEST = 2**64
"""Whole numbers beyond this are none that holdfast writes; tables and floats cannot hold them."""
SURROGATE = re.compile("[\ud800-\udfff]")


def parse_json(text: str | bytes, *, exact: bool = False) -> Any:
    """The value of a text in JSON, with NaN and infinities as Python writes them.

    Args:
        text: the text, or its bytes in UTF-8.
        exact: keep lone surrogates, which stand for names of files that are no text; else they become question marks,
            which tables and pages can hold.

    Raises:
        ValueError: in one line, if it is no JSON, is nested too deeply, has a key twice or a number out of range.
    """
    try:
        value = json.loads(_decoded(text), object_pairs_hook=_object, parse_int=_integer)
    except RecursionError:
        raise ValueError("values are nested too deeply") from None
    return value if exact else encodable(value)


def parse_json_object(text: str | bytes, *, exact: bool = False) -> dict[str, Any]:
    """The object of a text in JSON; see `parse_json`."""
    value = parse_json(text, exact=exact)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object; got {type(value).__name__}")
    return value


def _decoded(text: str | bytes) -> str:
    """Bytes as text; names of files that are no text were written as surrogates by earlier versions."""
    return text if isinstance(text, str) else text.decode("utf-8", "surrogatepass")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} is given twice")
    return value


def _integer(digits: str) -> int:
    if len(digits) > 20 or abs(value := int(digits)) >= LARGEST:
        raise ValueError(f"the number {digits[:12]}... of {len(digits)} digits is too large")
    return value


def encodable(value: Any) -> Any:
    """The same without lone surrogates."""
    if isinstance(value, str):
        return SURROGATE.sub("?", value)
    if isinstance(value, list):
        return [encodable(one) for one in value]
    return {encodable(key): encodable(one) for key, one in value.items()} if isinstance(value, dict) else value
