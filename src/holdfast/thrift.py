"""Structures in Thrift's compact protocol, as Parquet has them, read into plain values by the numbers of their fields.

Reference:
    https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from typing import Any

NESTED = 16
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
INTEGERS = (4, 5, 6)


def read_struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """The structure that begins at a place, and where it ends.

    Raises:
        ValueError: if it is damaged.
    """
    try:
        return _struct(data, at, 0)
    except IndexError:
        raise ValueError("damaged structure") from None


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    if depth > NESTED:
        raise ValueError("damaged structure")
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _zigzag(data, at)
        fields[number], at = _value(data, at, head & 0xF, depth)
    return fields, at + 1


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first."""
    value = data[at] & 0x7F
    for place in range(1, 10):
        if data[at + place - 1] < 0x80:
            return value, at + place
        value |= (data[at + place] & 0x7F) << 7 * place
    raise ValueError("damaged structure")


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    """A number with a sign."""
    value = data[at]
    if value < 0x80:  # nearly all have one byte, and there are hundreds in a file
        return value >> 1 ^ -(value & 1), at + 1
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at


def _value(data: bytes, at: int, kind: int, depth: int, *, inside: bool = False) -> tuple[Any, int]:
    if kind in INTEGERS:
        return _zigzag(data, at)
    if kind == BINARY:
        size, at = _varint(data, at)
        return _taken(data, at, size)
    if kind == STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (LIST, SET):
        return _list(data, at, depth + 1)
    if kind in (TRUE, FALSE):
        return (data[at] == TRUE, at + 1) if inside else (kind == TRUE, at)
    if kind == BYTE:
        return data[at], at + 1
    if kind == DOUBLE:
        return _taken(data, at, 8)
    raise ValueError("damaged structure")


def _taken(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size > len(data) - at:
        raise ValueError("damaged structure")
    return data[at : at + size], at + size


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    if depth > NESTED:
        raise ValueError("damaged structure")
    head, count = data[at], data[at] >> 4
    at += 1
    if count == 15:
        count, at = _varint(data, at)
    values = []
    for _ in range(count):
        value, at = _value(data, at, head & 0xF, depth, inside=True)
        values.append(value)
    return values, at
