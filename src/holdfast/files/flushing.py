"""What must be on disk before it counts, and errors of the system that name their file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def flush_file(file: BinaryIO) -> None:
    """Wait until all that was written to a file is on disk."""
    file.flush()
    os.fsync(file.fileno())


def flush_together(waiting: Sequence[tuple[Path, BinaryIO]]) -> None:
    """Flush files to disk, all at the same time: the disk takes hardly longer than for one of them.

    Args:
        waiting: open files, with the paths that errors name.
    """

    def flush(one: tuple[Path, BinaryIO]) -> None:
        with naming(one[0]):
            flush_file(one[1])

    try:
        with ThreadPoolExecutor(len(waiting)) as pool:
            list(pool.map(flush, waiting))
    except RuntimeError:  # the interpreter is about to end, and starts no threads any more
        for one in waiting:
            flush(one)


def flush_directory(path: Path) -> None:
    """A renamed file is where it is after a loss of power only when its directory is on disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with naming(path):
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def naming(path: Path, *, always: bool = False) -> Iterator[None]:
    """Let errors of the system say which file they are about, such as that the disk is full.

    Args:
        path: the file.
        always: also where they name another, which only we know of.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None or always:
            error.filename, error.filename2 = str(path), None
        raise
