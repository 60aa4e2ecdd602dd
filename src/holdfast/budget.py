"""How much memory a file may ask for; its header is asked before anything is allocated."""

from __future__ import annotations

import gzip
import io
import os
import re
from pathlib import Path
from typing import BinaryIO

from holdfast.errors import DataError, HoldfastError, RecipeError

VARIABLE = "HOLDFAST_MAX_BYTES"
SHARE = 0.5
"""The share of the machine's memory that reading one file may take."""
BLOCK = 1 << 20
GROWTH = 1.5
"""How much more memory than content bytes take while they are added to."""
MOST_DIGITS = 20
"""Of a number of bytes."""
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def memory_budget() -> int:
    """Bytes that one file may need: what the user allows, or half of the machine's memory."""
    allowed = os.environ.get(VARIABLE)
    if allowed is not None:
        return parse_bytes(allowed, VARIABLE)
    return int(SHARE * _available())


def _available() -> float:
    return min(_physical(), _of_the_container())


def require_budget(
    needed: float, what: str, *, error: type[HoldfastError] = DataError, smaller: str = "take a smaller one"
) -> None:
    """Refuse what does not fit.

    Args:
        needed: bytes.
        what: which file, and what in it.
        error: what to raise.
        smaller: what helps where the machine has less memory than that, so that no budget does.

    Raises:
        HoldfastError: of the type `error`, with the budget and how to raise it.
    """
    budget = memory_budget()
    if needed > max(budget, _available()):
        raise error(
            f"{what}: needs {in_words(needed)} of memory, more than the budget of {in_words(budget)} and than all that "
            f"this machine has, {in_words(_available())}; {smaller}"
        )
    if needed > budget:
        raise error(
            f"{what}: needs {in_words(needed)} of memory, more than the budget of {in_words(budget)}; allow more with "
            f"`holdfast --max-bytes {_rounded_up(needed)} ...` or {VARIABLE}"
        )


def decompressed(source: bytes | bytearray | BinaryIO, what: str) -> bytearray:
    """The content of gzip data, as long as it fits together with them.

    Raises:
        DataError: if it does not.
        OSError, EOFError, zlib.error: if it is damaged.
    """
    content, packed = bytearray(), len(source) if isinstance(source, bytes | bytearray) else 0
    with gzip.open(io.BytesIO(source) if isinstance(source, bytes | bytearray) else source) as file:
        while block := file.read(BLOCK):
            require_budget(GROWTH * (len(content) + len(block)) + packed, what)
            content += block
    return content


def parse_bytes(text: str, where: str) -> int:
    """A number of bytes such as 500000, 800M or 8G.

    Raises:
        RecipeError: for anything else.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if match is None or len(match[1]) > MOST_DIGITS:
        raise RecipeError(f"{where}: expected a number of bytes such as 800M or 8G; got {text[:40]!r}")
    return int(float(match[1]) * UNITS[match[2]])


def in_words(size: float) -> str:
    """Bytes in the largest unit that fits."""
    for unit in ("T", "G", "M", "k"):
        if size >= UNITS[unit.lower()]:
            return f"{size / UNITS[unit.lower()]:.3g} {unit}B"
    return f"{int(size)} bytes"


def _rounded_up(size: float) -> str:
    return f"{int(size // 10**9) + 1}G"


def _physical() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _of_the_container() -> float:
    """The memory that the system allows this process, where it states a limit."""
    try:
        return float(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):
        return float("inf")
