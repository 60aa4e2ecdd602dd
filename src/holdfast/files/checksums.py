"""The journal of a directory, `checksums.txt`: what each of its files may contain, and which must be there."""

from __future__ import annotations

import functools
import io
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from holdfast.errors import HoldfastError, LedgerError
from holdfast.files.flushing import flush_file, naming
from holdfast.files.regular import kind_of, read_regular

CHECKSUMS = "checksums.txt"
LINE = re.compile(r"([0-9a-f]{64}|removed|# written) {2}(.+)")
"""The checksum that a file is about to have, that it was deleted on purpose, or that it is there (a comment)."""
WRITTEN = "# written"


def checksums_of(path: Path, error: type[HoldfastError] = LedgerError) -> set[str]:
    """The checksums that a file may have: of all that was written there, since kills may have left any of it."""
    return Journal(path.parent / CHECKSUMS).checksums(path.name, error)


def note(file: Path, lines: Mapping[str, str], *, flush: bool = True) -> None:
    """Append a line for each name to `checksums.txt`, and flush it to disk."""
    with naming(file), noted(file, lines) as journal:
        if flush:
            flush_file(journal)


@contextmanager
def noted(file: Path, lines: Mapping[str, str]) -> Iterator[BinaryIO]:
    """`checksums.txt` with another line for each name, which is not on disk yet."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with naming(file), open(os.open(file, flags, 0o666), "r+b") as journal:
        end = journal.seek(0, io.SEEK_END)
        if end:
            journal.seek(end - 1)
        torn = bool(end) and journal.read(1) != b"\n"  # a kill left half a line
        text = "".join(f"{what}  {name}\n" for name, what in lines.items())
        journal.write(f"{chr(10) * torn}{text}".encode())
        journal.flush()
        yield journal


@functools.lru_cache(maxsize=64)
class Journal:
    """The content of `checksums.txt`, read on from where it ended the last time.

    Args:
        file: the file.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._state = file, (0, 0, 0)
        self._content, self._checksums, self._written = b"", dict[str, set[str]](), set[str]()

    def checksums(self, name: str, error: type[HoldfastError]) -> set[str]:
        """All checksums of a file since it was removed last."""
        self._refresh(error, name)
        return self._checksums.get(name, set())

    def names(self) -> list[str]:
        """All files that have checksums."""
        self._refresh()
        return list(self._checksums)

    def written(self) -> set[str]:
        """Names of the files that were there once and were not removed since."""
        self._refresh()
        return self._written

    def _refresh(self, error: type[HoldfastError] = LedgerError, name: str = "what is beside it") -> None:
        try:
            stated = os.stat(self._file, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            self._forget()
            self._state = (0, 0, 0)
            return
        except OSError as problem:
            raise error(f"{self._file}: cannot be read: {problem.strerror}") from None
        if not stat.S_ISREG(stated.st_mode):
            raise error(
                f"{self._file}: expected a regular file with checksums, got {kind_of(stated.st_mode)}; holdfast "
                f"follows no links to checksums; delete it, or copy {name} to another directory"
            )
        state = (stated.st_ino, stated.st_size, stated.st_mtime_ns)
        if state != self._state:
            self._read_on(read_regular(self._file, error=error))
            self._state = state

    def _forget(self) -> None:
        self._content, self._checksums, self._written = b"", {}, set()

    def _read_on(self, content: bytes) -> None:
        if not content.startswith(self._content):
            self._forget()
        for line in content[len(self._content) :].decode("utf-8", "replace").split("\n"):
            if match := LINE.fullmatch(line):
                what, name = match.groups()
                if what == "removed":
                    self._checksums.pop(name, None)
                    self._written.discard(name)
                elif what == WRITTEN:
                    self._written.add(name)
                else:
                    self._checksums.setdefault(name, set()).add(what)
        self._content = content[: content.rfind(b"\n") + 1]
