"""Reading files only as they were written."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.budget import require_budget
from holdfast.errors import HoldfastError, LedgerError
from holdfast.files.checksums import CHECKSUMS, Journal, checksums_of
from holdfast.files.regular import open_regular

SETTLED = 2_000_000_000
"""Nanoseconds after which a change of a file also changes its times; some file systems count in two seconds."""
MOST_DIGESTS = 1024
"""Checksums that are remembered."""


def read_checked(
    path: Path, *, error: type[HoldfastError] = LedgerError, remedy: str = "", follow: bool = False
) -> bytes:
    """The content of a file as it was written; see `read_regular`.

    Raises:
        HoldfastError: of the type `error`, if it was damaged or changed since; with the remedy.
    """
    with open_regular(path, error, follow) as file:
        stated = os.fstat(file.fileno())
        require_budget(stated.st_size, str(path), error=error)
        content, checksums = file.read(), checksums_of(path, error)
        if checksums:
            digest = _cached(stated, lambda: hashlib.sha256(content).hexdigest())
            _require_one_of(checksums, digest, path, error, remedy)
        return content


def require_unchanged(
    path: Path, *, error: type[HoldfastError] = LedgerError, remedy: str = "", follow: bool = False
) -> None:
    """Refuse a file that was damaged or changed since it was written; see `read_checked`.

    It is never in memory as a whole, and hashed once as long as it stays the same file of the same time.
    """
    with open_regular(path, error, follow) as file:
        if checksums := checksums_of(path, error):
            digest = _cached(os.fstat(file.fileno()), lambda: hashlib.file_digest(file, "sha256").hexdigest())
            _require_one_of(checksums, digest, path, error, remedy)


def _require_one_of(checksums: set[str], digest: str, path: Path, error: type[HoldfastError], remedy: str) -> None:
    if digest not in checksums:
        raise error(f"{path}: damaged or changed since it was written: its content does not fit {CHECKSUMS}{remedy}")


_digests: dict[tuple[int, ...], str] = {}
"""Checksums of files that were read, by what tells their versions apart."""


def _cached(stated: os.stat_result, digest: Callable[[], str]) -> str:
    """The checksum of an open file in this state, computed once.

    One that has just changed may change again within the resolution of its times, and is not remembered.
    """
    state = (stated.st_dev, stated.st_ino, stated.st_size, stated.st_mtime_ns, stated.st_ctime_ns)
    if state not in _digests:
        now, computed = time.time_ns(), digest()
        if not max(stated.st_mtime_ns, stated.st_ctime_ns) + SETTLED < now:
            return computed
        if len(_digests) >= MOST_DIGESTS:
            _digests.pop(next(iter(_digests)))
        _digests[state] = computed
    return _digests[state]


def is_missing(path: Path) -> bool:
    """Whether a file was written and is gone, though nobody removed it on purpose."""
    return not path.exists() and path.name in Journal(path.parent / CHECKSUMS).written()


def missing_files(directory: Path) -> list[Path]:
    """The files of a directory that were written and are gone, though nobody removed them on purpose."""
    written = sorted(Journal(directory / CHECKSUMS).written())
    return [directory / name for name in written if not (directory / name).exists()]
