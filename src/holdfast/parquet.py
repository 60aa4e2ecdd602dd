"""Tables as Parquet files, read only after footer and pages have said how large they become.

A few bytes of Parquet can stand for billions of values, and Polars allocates what a file promises. The footer may
promise less than its columns hold: what counts are the headers of their pages, since a page is decompressed into as
many bytes as its header says, and decoded into as many values. All are structures in Thrift's compact protocol; only
their counts are needed. What can grow beyond these counts is refused: values of fixed length, texts stored as
changes of the one before, and kinds of columns that holdfast does not write.

Reference:
    https://parquet.apache.org/docs/file-format/metadata/
"""

from __future__ import annotations

import io
import struct
from typing import Any

import polars as pl

from holdfast.budget import memory_budget, require_budget
from holdfast.errors import HoldfastError, LedgerError
from holdfast.thrift import read_struct

MAGIC = b"PAR1"
MOST_ROWS = 1_000_000
"""Of one part; holdfast writes some thousands."""
PER_VALUE = 16
"""Bytes of memory that a value takes at most, beside those it refers to."""
PAGES = (5, 7, 8)
"""Fields of a page's header that say what is in it: data, a dictionary, or data in a later form."""
DICTIONARY, TEXT = 7, 6
FIXED_LENGTH, DELTAS = 7, 7
"""A kind of values, and a way to store texts, which a few bytes multiply."""
KINDS = (pl.String, pl.Boolean, pl.Null)
"""Of columns, beside numbers and lists and structures of these."""


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
        needed, texts = _needed(content)
        require_budget(needed, what, error=LedgerError)
        for name, kind in pl.read_parquet_schema(io.BytesIO(content)).items():
            _require_kind(name, kind)
        frame = pl.read_parquet(io.BytesIO(content))
        if texts > memory_budget():  # equal ones may be stored once
            require_budget(sum(map(_text_bytes, frame)), what, error=LedgerError)
        return frame
    except HoldfastError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, MemoryError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise LedgerError(f"{what} ({line}); {remedy}") from error


def _needed(content: bytes) -> tuple[int, int]:
    """Bytes of memory, and of all texts at most, by the footer and the headers of the pages.

    Raises:
        ValueError: if there is none, or it counts more rows than a part has.
    """
    if len(content) < 12 or content[:4] != MAGIC or content[-4:] != MAGIC:
        raise ValueError("the file must begin and end with PAR1")
    (length,) = struct.unpack("<I", content[-8:-4])
    if length > len(content) - 12:
        raise ValueError("the footer is longer than the file")
    footer, _ = read_struct(content[-8 - length : -8], 0)
    groups = _several(footer, 4)
    rows = sum(_count(group, 3) for group in groups)
    if max(rows, _count(footer, 3)) > MOST_ROWS:
        raise ValueError(f"{max(rows, _count(footer, 3)):,} rows, where a part has at most {MOST_ROWS:,}")
    columns = [column.get(3, {}) for group in groups for column in _several(group, 1)]
    stated = sum(PER_VALUE * _count(column, 5) + _count(column, 6) for column in columns)
    pages = [_needed_by_pages(content, column, len(content) - 8 - length) for column in columns]
    return max(stated, sum(needed for needed, _ in pages)), sum(texts for _, texts in pages)


def _needed_by_pages(content: bytes, column: Any, end: int) -> tuple[int, int]:
    """Bytes of memory that the pages of a column need, by their headers, and most of all texts in it.

    Raises:
        ValueError: if they do not lie in the file, or hold what can grow.
    """
    if _count(column, 1) == FIXED_LENGTH:
        raise ValueError("values of fixed length")
    at = min(_count(column, place) for place in (9, 11) if place == 9 or _count(column, place))
    stop, needed = at + _count(column, 7), 0
    if stop > end:
        raise ValueError("a column that ends outside the file")
    dictionary = values = 0
    while at < stop:
        header, at = read_struct(content, at)
        count = _count(_page(header), 1)
        needed += PER_VALUE * count + _count(header, 2)
        at += _count(header, 3)
        dictionary += _count(header, 2) if DICTIONARY in header else 0
        values += 0 if DICTIONARY in header else count
    if at > stop or values != _count(column, 5):
        raise ValueError(f"a column of {_count(column, 5)} values whose pages have {values}")
    return needed, dictionary * values if _count(column, 1) == TEXT else 0


def _page(header: dict[int, Any]) -> dict[int, Any]:
    """What a header says of its page."""
    details = [header[place] for place in PAGES if isinstance(header.get(place), dict)]
    if len(details) != 1 or any(_count(details[0], place) == DELTAS for place in (2, 4)):
        raise ValueError("a page of an unknown kind, or of changes")
    return details[0]  # type: ignore[no-any-return]


def _require_kind(name: str, kind: Any, depth: int = 0) -> None:
    """Refuse columns that holdfast does not write.

    Raises:
        ValueError: naming the column.
    """
    inner = [kind.inner] if isinstance(kind, pl.List) else [one.dtype for one in getattr(kind, "fields", ())]
    if (
        depth > 4
        or not (inner or isinstance(kind, pl.Struct) or kind.is_numeric() or kind in KINDS)
        or kind.is_decimal()
    ):
        raise ValueError(f"a column {name[:40]!r} of the kind {str(kind)[:40]}")
    for one in inner:
        _require_kind(name, one, depth + 1)


def _text_bytes(column: pl.Series) -> int:
    """Bytes of all texts in a column: equal ones are stored once, and come apart in Python."""
    if isinstance(column.dtype, pl.List):
        return _text_bytes(column.explode())
    if isinstance(column.dtype, pl.Struct):
        return sum(_text_bytes(column.struct.field(one.name)) for one in column.dtype.fields)
    return int(column.str.len_bytes().sum() or 0) if column.dtype == pl.String else 0


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
