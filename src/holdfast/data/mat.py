"""Arrays of numbers in MATLAB's files of version 5, read without trusting a size in them.

A file is a header of 128 bytes and elements: a tag (kind and length), then data up to a multiple of eight bytes. An
array is an element of four: flags, lengths of axes, name, values; it may be compressed as a whole.

Reference:
    https://www.mathworks.com/help/pdf_doc/matlab/matfile_format.pdf, chapter 1
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.budget import require_budget

HEADER = 128
MATRIX, COMPRESSED = 14, 15
KINDS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""Formats of stored values."""
NUMBERS = range(6, 16)
"""Classes of arrays of numbers."""
COMPLEX = 0x08
LONGEST_START = 512
"""Largest number of bytes of flags, axes and name."""


def read_mat(content: bytes, wanted: Sequence[str], what: str) -> dict[str, NDArray[Any]]:
    """Real arrays of a file by name.

    Args:
        content: content of the file.
        wanted: names of the arrays; others are not decompressed.
        what: name of the file, for messages.

    Raises:
        ValueError: if it is no such file or is damaged.
        DataError: if an array does not fit the budget.
    """
    order = {b"IM": "<", b"MI": ">"}.get(content[126:HEADER])
    if order is None:
        raise ValueError("expected a MATLAB file of version 5")
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for kind, data in _elements(memoryview(content)[HEADER:], order):
        start = _inflated(data, LONGEST_START) if kind == COMPRESSED else data[:LONGEST_START]
        name = _name(start, order, packed=kind == COMPRESSED)
        if name is not None and name in wanted:
            require_budget(len(content), what)
            arrays[name] = _array(_whole(data, order, what) if kind == COMPRESSED else data, order)
    return arrays


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Kind and data of each element."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from(f"{order}II", data, at)
        if kind >> 16:  # up to four bytes within the tag
            kind, size, begin, at = kind & 0xFFFF, kind >> 16, at + 4, at + 8
            if size > 4:
                raise ValueError(f"damaged element: {size} bytes within a tag")
        else:
            begin = at + 8
            at = begin + size + (-size % 8 if kind != COMPRESSED else 0)
        if begin + size > len(data):
            raise ValueError(f"damaged element: expected {size} bytes, got {len(data) - begin}")
        yield kind, data[begin : begin + size]


def _inflated(data: memoryview, size: int) -> memoryview:
    """The beginning of compressed data."""
    return memoryview(zlib.decompressobj().decompress(data, size))


def _started(data: memoryview, size: int) -> memoryview:
    """The same, which must be that long."""
    start = _inflated(data, size)
    if len(start) < size:
        raise ValueError("damaged array: it ends before it begins")
    return start


def _whole(data: memoryview, order: str, what: str) -> memoryview:
    """The array in compressed data, of the length in its tag."""
    (size,) = struct.unpack_from(f"{order}I", _started(data, 8), 4)
    require_budget(size, what)
    content = _inflated(data, size + 8)
    if len(content) != size + 8:
        raise ValueError(f"damaged array: expected {size} bytes, got {len(content) - 8}")
    return content[8:]


def _name(start: memoryview, order: str, *, packed: bool) -> str | None:
    """The name of an array of numbers; None for anything else, or if its start is damaged."""
    try:
        parts = _parts(start[8:] if packed else start, order, 3)
        return bytes(parts[2][1]).decode("latin1")
    except ValueError:
        return None


def _parts(data: memoryview, order: str, count: int) -> list[tuple[int, memoryview]]:
    elements = _elements(data, order)
    parts = [part for _, part in zip(range(count), elements, strict=False)]
    if len(parts) < count or len(parts[0][1]) < 8:
        raise ValueError("damaged array: expected flags, axes, name and values")
    return parts


def _array(data: memoryview, order: str) -> NDArray[Any]:
    flags, axes, _, (kind, values) = _parts(data, order, 4)
    (word,) = struct.unpack_from(f"{order}I", flags[1])
    if word & 0xFF not in NUMBERS or word >> 8 & COMPLEX or kind not in KINDS:
        raise ValueError("expected an array of real numbers, got another kind of values")
    shape = tuple(np.frombuffer(axes[1][: len(axes[1]) // 4 * 4], f"{order}i4").tolist())
    dtype = np.dtype(f"{order}{KINDS[kind]}")
    if not shape or min(shape) < 0 or len(shape) > 8 or math.prod(shape) * dtype.itemsize != len(values):
        raise ValueError(f"damaged array: {len(values)} bytes, which shape {shape} of {dtype} does not fit")
    array: NDArray[Any] = np.frombuffer(values, dtype).reshape(shape, order="F")
    return array.astype(dtype.newbyteorder("="), copy=False)
