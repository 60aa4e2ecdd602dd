"""Tables as Parquet files, read only after their footer has said how large they become.

A few bytes of Parquet can stand for billions of values, and Polars allocates what a file promises. The footer is a
structure in Thrift's compact protocol; of it only the counts are needed.

Reference:
    https://parquet.apache.org/docs/file-format/metadata/
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import Any

import polars as pl

from holdfast.budget import require_budget
from holdfast.errors import HoldfastError, LedgerError

MAGIC = b"PAR1"
MOST_ROWS = 1_000_000
"""Of one part; holdfast writes some thousands."""
PER_VALUE = 16
"""Bytes of memory that a value takes at most, beside those it refers to."""
NESTED = 16
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
INTEGERS = (4, 5, 6)


def to_parquet(frame: pl.DataFrame) -> bytes:
    """A table as a file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def from_parquet(content: bytes, what: str, remedy: str) -> pl.DataFrame:
    """The table in a file.

    Args:
        content: of the file.
        what: its name and what it was expected to be, for messages.
        remedy: what the user can do.

    Raises:
        LedgerError: if it is no table, is damaged, or is too large.
    """
    try:
        needed = _needed(content)
        require_budget(needed, what, error=LedgerError)
        return pl.read_parquet(io.BytesIO(content))
    except HoldfastError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, MemoryError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise LedgerError(f"{what} ({line}); {remedy}") from error


def _needed(content: bytes) -> int:
    """Bytes of memory, by the footer.

    Raises:
        ValueError: if there is none, or it counts more rows than a part has.
    """
    if len(content) < 12 or content[:4] != MAGIC or content[-4:] != MAGIC:
        raise ValueError("the file must begin and end with PAR1")
    (length,) = struct.unpack("<I", content[-8:-4])
    if length > len(content) - 12:
        raise ValueError("the footer is longer than the file")
    footer = _struct(_Bytes(content[-8 - length : -8]), 0)
    groups = _several(footer, 4)
    rows = sum(_count(group, 3) for group in groups)
    if max(rows, _count(footer, 3)) > MOST_ROWS:
        raise ValueError(f"{max(rows, _count(footer, 3)):,} rows, where a part has at most {MOST_ROWS:,}")
    columns = [column.get(3, {}) for group in groups for column in _several(group, 1)]
    return sum(PER_VALUE * _count(column, 5) + _count(column, 6) for column in columns)


def _several(fields: dict[int, Any], number: int) -> list[dict[int, Any]]:
    value = fields.get(number, [])
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError("damaged footer")
    return value


def _count(fields: Any, number: int) -> int:
    value = fields.get(number, 0) if isinstance(fields, dict) else None
    if not isinstance(value, int) or value < 0:
        raise ValueError("damaged footer")
    return value


class _Bytes:
    """Bytes that are read from the beginning.

    Args:
        data: the bytes.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count > len(self._data) - self._at:
            raise ValueError("damaged footer")
        self._at += count
        return self._data[self._at - count : self._at]

    def varint(self) -> int:
        """A number of seven bits a byte, the lowest first."""
        value = 0
        for place in range(10):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value
        raise ValueError("damaged footer")

    def zigzag(self) -> int:
        """A number with a sign."""
        value = self.varint()
        return value >> 1 ^ -(value & 1)


def _struct(source: _Bytes, depth: int) -> dict[int, Any]:
    if depth > NESTED:
        raise ValueError("damaged footer")
    return dict(_fields(source, depth))


def _fields(source: _Bytes, depth: int) -> Iterator[tuple[int, Any]]:
    number = 0
    while head := source.take(1)[0]:
        number = number + (head >> 4) if head >> 4 else source.zigzag()
        yield number, _value(source, head & 0xF, depth)


def _value(source: _Bytes, kind: int, depth: int, *, inside: bool = False) -> Any:
    if kind in (TRUE, FALSE):
        return source.take(1)[0] == TRUE if inside else kind == TRUE
    if kind == BYTE:
        return source.take(1)[0]
    if kind in INTEGERS:
        return source.zigzag()
    if kind == DOUBLE:
        return source.take(8)
    if kind == BINARY:
        return source.take(source.varint())
    if kind in (LIST, SET):
        if depth > NESTED:
            raise ValueError("damaged footer")
        head = source.take(1)[0]
        count = source.varint() if head >> 4 == 15 else head >> 4
        return [_value(source, head & 0xF, depth + 1, inside=True) for _ in range(count)]
    if kind == STRUCT:
        return _struct(source, depth + 1)
    raise ValueError("damaged footer")
