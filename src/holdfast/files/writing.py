"""Writing files whole or not at all, and putting in order what a kill has left."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from holdfast.files.checksums import CHECKSUMS, WRITTEN, Journal, checksums_of, note, noted
from holdfast.files.flushing import flush_directory, flush_file, flush_together, naming
from holdfast.files.regular import GUARDED, entries_of

TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
"""Names of files that are being written."""
LONGEST = 40
"""Characters of a name that the name of its temporary file repeats, which could become too long otherwise."""


def write_checked(path: Path, content: bytes) -> None:
    """Write or replace a file, with its checksum."""
    write_together({path: content})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write or replace several files of one directory, with their checksums.

    None appears before all are on disk; then each does, whole and in this order. Checksums and files are flushed at
    the same time, and the directory once for all.
    """
    directory = next(iter(contents)).parent
    directory.mkdir(parents=True, exist_ok=True)
    journal, new = directory / CHECKSUMS, [path.name for path in contents if not path.exists()]
    checksums = {path.name: hashlib.sha256(content).hexdigest() for path, content in contents.items()}
    with ExitStack() as unfinished:
        waiting = [(journal, unfinished.enter_context(noted(journal, checksums)))]
        temporary: dict[Path, Path] = {}
        for path, content in contents.items():
            temporary[path], file = unfinished.enter_context(_temporary(path))
            with naming(path):
                file.write(content)
            waiting.append((path, file))
        flush_together(waiting)
        for path in contents:
            _rename(temporary[path], path)
    flush_directory(directory)
    if new:
        note(journal, dict.fromkeys(new, WRITTEN), flush=False)  # may be lost with the power: it warns, and no more


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` once it is complete and on disk; an error leaves all as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_temporary(path.parent)
    with _temporary(path) as (temporary, file):
        with naming(path):
            yield file
            flush_file(file)
        _rename(temporary, path)
    flush_directory(path.parent)


@contextmanager
def _temporary(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file beside a path under a name that nobody else can have made; deleted at the end unless it was renamed.

    As long as it is open it is locked, so that no other process takes it for what a kill has left.
    """
    while True:
        temporary = path.with_name(f".{path.name[:LONGEST]}.{secrets.token_hex(8)}.tmp")
        with naming(path, always=True):
            handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with ExitStack() as unfinished:
            unfinished.callback(temporary.unlink, missing_ok=True)
            file = unfinished.enter_context(open(handle, "w+b"))
            _lock(handle)
            if os.fstat(handle).st_nlink:  # else another process has deleted it before it was locked
                yield temporary, file
                return


def _lock(handle: int, flags: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file; False where a living process has done so, or where the file system has no locks."""
    try:
        fcntl.flock(handle, flags)
    except OSError:
        return False
    return True


def _rename(temporary: Path, path: Path) -> None:
    with naming(path, always=True):
        temporary.replace(path)


def remove(path: Path) -> None:
    """Delete a file, if there is one, on purpose: it is not missing then."""
    if checksums_of(path):
        note(path.parent / CHECKSUMS, {path.name: "removed"})
    path.unlink(missing_ok=True)


def remove_temporary(directory: Path) -> None:
    """Delete what processes that were killed have left half written in a directory; what others write now stays."""
    for entry in entries_of(directory):
        if TEMPORARY.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            with suppress(OSError):
                _remove_unless_locked(Path(entry))


def _remove_unless_locked(path: Path) -> None:
    handle = os.open(path, GUARDED | os.O_NOFOLLOW)
    try:
        if stat.S_ISREG(os.fstat(handle).st_mode) and _lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def tidy(directory: Path) -> None:
    """Put in order what a killed process has left in a directory and in those below it; nobody else may write there."""
    for below in (directory, *(path for path in directory.glob("*") if path.is_dir() and not path.is_symlink())):
        remove_temporary(below)
        journal = Journal(below / CHECKSUMS)
        if new := [name for name in journal.names() if name not in journal.written() and (below / name).exists()]:
            note(below / CHECKSUMS, dict.fromkeys(new, WRITTEN), flush=False)
