"""NumPy's files from strangers: plain numbers and texts, of the size that their header states, within the budget.

`numpy.load` trusts headers (some kinds of values make it divide by zero) and raises a dozen kinds of errors. A header
is a Python literal of three fields, so little is needed to read it strictly; whatever is wrong is one `ValueError`.

Reference:
    https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import ast
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from holdfast.budget import BLOCK, require_budget
from holdfast.errors import HoldfastError

MAGIC = np.lib.format.MAGIC_PREFIX
KINDS = "buifU"
"""Booleans, whole numbers, floats and text; nothing else is read."""
LONGEST_HEADER = 10_000
MOST_AXES = 16
SUFFIX = ".npy"
ARRAY = "expected a NumPy .npy file without pickled objects"
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_array(content: bytes, what: str, *, error: type[HoldfastError]) -> NDArray[Any]:
    """The array in the content of a `.npy` file.

    Args:
        content: of the file.
        what: its name, for messages.
        error: what to raise.

    Raises:
        HoldfastError: of the type `error`, if it is no array or is damaged.
    """
    with one_error(f"{what}: {ARRAY}", error):
        return parse_array(content)


def map_array(path: Path, *, error: type[HoldfastError]) -> NDArray[Any]:
    """The array in a `.npy` file, its values left on disk until they are needed; see `read_array`."""
    with one_error(f"{path}: {ARRAY}", error):
        with path.open("rb") as file:
            header = _Header.read(file)
            header.require_size(path.stat().st_size - file.tell())
            start = file.tell()
        if not header.size:
            return np.empty(header.shape, header.dtype)
        return np.memmap(path, header.dtype, "r", start, header.shape, header.order)


def read_archive(
    source: Path | bytes, what: str, wanted: Callable[[str], bool], *, error: type[HoldfastError]
) -> dict[str, NDArray[Any]]:
    """Arrays of an `.npz` file by name; others, which may be large, are not touched.

    Args:
        source: the file or its content.
        what: name of the file, for messages.
        wanted: chooses arrays by name.
        error: what to raise.

    Raises:
        HoldfastError: of the type `error`, if it is no archive, is damaged, or the arrays together do not fit.
    """
    with (
        one_error(f"{what}: expected a NumPy .npz archive", error),
        zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as archive,
    ):
        members = {info.filename.removesuffix(SUFFIX): info for info in archive.infolist()}
        chosen = {name: info for name, info in members.items() if wanted(name)}
        require_budget(sum(info.file_size for info in chosen.values()), what, error=error)
        arrays = {}
        for name, info in chosen.items():
            with one_error(f"{what}: {name}: expected an array", error):
                arrays[name] = parse_array(read_member(archive, info, what, error=error))
    return arrays


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, what: str, *, error: type[HoldfastError]) -> bytearray:
    """A member of an archive, within the budget.

    Raises:
        ValueError: if it is packed in a way that NumPy does not use.
        HoldfastError: of the type `error`, if it does not fit.
    """
    if info.compress_type not in PACKED or info.flag_bits & 1:
        raise ValueError("expected values that are stored or deflated, got another compression or encryption")
    content = bytearray()
    with archive.open(info) as file:
        while block := file.read(BLOCK):
            content += block
            require_budget(len(content), what, error=error)
    return content


def parse_array(content: bytes | bytearray) -> NDArray[Any]:
    """The array that the content of a `.npy` file describes; of a `bytearray` it shares the memory.

    Raises:
        ValueError: if it is none.
    """
    content = bytearray(content) if isinstance(content, bytes) else content
    file = io.BytesIO(content[: LONGEST_HEADER + 20])
    header = _Header.read(file)
    header.require_size(len(content) - file.tell())
    values: NDArray[Any] = np.frombuffer(content, header.dtype, header.size, file.tell())
    return _require_text(values.reshape(header.shape, order=header.order))


def _require_text(values: NDArray[Any]) -> NDArray[Any]:
    """The same, once texts are known to be text."""
    if values.dtype.kind == "U":
        codes = values.astype(values.dtype.newbyteorder("=")).reshape(-1).view(np.uint32)
        if np.any((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))):
            raise ValueError("expected text, got characters that do not exist")
    return values


class _Header:
    """What an array's file says of it.

    Args:
        dtype: kind of its values.
        shape: length of each axis.
        order: C or F, which axis runs fastest.
    """

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...], order: Any) -> None:
        self.dtype, self.shape, self.order = dtype, shape, order

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def require_size(self, available: int) -> None:
        """Refuse an array that is longer than its file."""
        if self.size * self.dtype.itemsize > available:
            raise ValueError(f"got {available} bytes, which shape {self.shape} of {self.dtype} does not fit")

    @classmethod
    def read(cls, file: BinaryIO) -> _Header:
        """The header that begins here."""
        if file.read(6) != MAGIC:
            raise ValueError("got another format")
        version = file.read(2)
        form = "<H" if version == b"\1\0" else "<I"
        (length,) = struct.unpack(form, file.read(struct.calcsize(form)))
        if version not in (b"\1\0", b"\2\0", b"\3\0") or length > LONGEST_HEADER:
            raise ValueError(f"got version {version.hex()} with a header of {length} bytes")
        text = file.read(length).decode("latin1" if version < b"\3\0" else "utf-8")
        try:
            fields = ast.literal_eval(text.strip())
        except (SyntaxError, TypeError, MemoryError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or fields.keys() != {"descr", "fortran_order", "shape"}:
            raise ValueError("got a damaged header")
        return cls(_dtype(fields["descr"]), _shape(fields["shape"]), "F" if fields["fortran_order"] is True else "C")


def _dtype(text: object) -> np.dtype[Any]:
    if text == "|O":
        raise ValueError("got pickled objects, which are never loaded")
    try:
        dtype = np.dtype(text) if isinstance(text, str) and len(text) < 16 else None
    except (TypeError, ValueError, SyntaxError, OverflowError, MemoryError):
        dtype = None
    if (
        dtype is None
        or dtype.kind not in KINDS
        or not 0 < dtype.itemsize < 2**20
        or (dtype.itemsize > 8 and dtype.kind != "U")
    ):
        raise ValueError(f"expected numbers or text, got values of the kind {str(text)[:40]}")
    return dtype


def _shape(shape: object) -> tuple[int, ...]:
    if (
        not isinstance(shape, tuple)
        or len(shape) > MOST_AXES
        or not all(type(n) is int and 0 <= n < 2**62 for n in shape)
    ):
        raise ValueError(f"expected at most {MOST_AXES} lengths of axes, got {str(shape)[:40]}")
    if math.prod(n for n in shape if n) >= 2**62:
        raise ValueError(f"expected a shape that fits in memory, got {str(shape)[:80]}")
    return shape


@contextmanager
def one_error(expected: str, error: type[HoldfastError]) -> Iterator[None]:
    """What a damaged archive or array raises becomes one line that begins with what was expected."""
    try:
        yield
    except HoldfastError:
        raise
    except KeyError as problem:
        raise error(f"{expected}; {problem.args[0] if problem.args else 'an entry is missing'}") from problem
    except (ValueError, EOFError, OSError, struct.error, zipfile.BadZipFile, zlib.error) as problem:
        raise error(f"{expected}; {problem}") from problem
    except (NotImplementedError, RuntimeError, IndexError, OverflowError) as problem:  # of zipfile: encrypted, too new
        raise error(f"{expected}; {type(problem).__name__}: {problem}") from problem
