"""Files of runs: written whole or not at all, read only as they were written, and never through a link.

A file appears under its name at once: it is written under a random temporary name that nobody else can have made,
flushed to disk and renamed, and the directory is flushed as well. Before that its SHA-256 is appended to the
`checksums.txt` of its directory, in the format of `sha256sum`. So whatever a kill or a loss of power leaves has a
checksum there, and reading refuses content without one of those that belong to the name: what was never written there.
Files of versions that kept no checksums are read as they are.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from holdfast.budget import require_budget
from holdfast.errors import HoldfastError, LedgerError

CHECKSUMS = "checksums.txt"
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
"""Names of files that are being written."""
LINE = re.compile(r"([0-9a-f]{64}|removed) {2}(.+)")
GUARDED = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not keep anybody waiting


def read_regular(path: Path, *, error: type[HoldfastError] = LedgerError, follow: bool = False) -> bytes:
    """The content of an ordinary file.

    Args:
        path: the file.
        error: what to raise.
        follow: whether a symbolic link may lead to it, as it may where the user names the file.

    Raises:
        HoldfastError: of the type `error`, if it is something else, cannot be read, or is larger than the budget.
    """
    with _opened(path, error, follow) as file:
        require_budget(os.fstat(file.fileno()).st_size, str(path), error=error)
        return file.read()


def require_regular(path: Path, *, error: type[HoldfastError] = LedgerError) -> None:
    """Refuse what is no regular file, nor a link to one; see `read_regular`."""
    _opened(path, error, follow=True).close()


def _opened(path: Path, error: type[HoldfastError], follow: bool) -> BinaryIO:
    try:
        handle = os.open(path, GUARDED | (0 if follow else os.O_NOFOLLOW))
    except ValueError as problem:  # a name with a zero in it
        raise error(f"{str(path)!r}: expected the name of a file; {problem}") from None
    except OSError as problem:
        what = "a symbolic link" if path.is_symlink() and not follow else problem.strerror
        raise error(f"{path}: expected a regular file, got {what}") from None
    if not stat.S_ISREG(mode := os.fstat(handle).st_mode):
        os.close(handle)
        raise error(f"{path}: expected a regular file, got {_kind(mode)}")
    return open(handle, "rb")


def read_checked(
    path: Path, *, error: type[HoldfastError] = LedgerError, remedy: str = "", follow: bool = False
) -> bytes:
    """The content of a file as it was written; see `read_regular`.

    Raises:
        HoldfastError: of the type `error`, if it was damaged or changed since; with the remedy.
    """
    content, known = read_regular(path, error=error, follow=follow), _known(path)
    if known and hashlib.sha256(content).hexdigest() not in known:
        raise error(f"{path}: damaged or changed since it was written: its content does not fit {CHECKSUMS}{remedy}")
    return content


def write_checked(path: Path, content: bytes) -> None:
    """Write or replace a file, with its checksum."""
    write_together({path: content})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write or replace several files of one directory, with their checksums.

    None appears before all are on disk; then each does, whole and in this order. Checksums and directory are flushed
    once for all.
    """
    directory = next(iter(contents)).parent
    directory.mkdir(parents=True, exist_ok=True)
    _note(directory / CHECKSUMS, {path.name: hashlib.sha256(content).hexdigest() for path, content in contents.items()})
    with ExitStack() as unfinished:
        temporary: dict[Path, Path] = {}
        for path, content in contents.items():
            temporary[path] = _temporary(path)
            unfinished.callback(temporary[path].unlink, missing_ok=True)
            with _written(temporary[path], path) as file:
                file.write(content)
        for path in contents:
            temporary[path].replace(path)
    _flush_directory(directory)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` once it is complete and on disk; an error leaves all as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        with _written(temporary, path) as file:
            yield file
        temporary.replace(path)
        _flush_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    """A name beside a path that nobody else can have made."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


@contextmanager
def _written(temporary: Path, path: Path) -> Iterator[BinaryIO]:
    """A new file, which is on disk afterwards; errors name the path whose place it will take."""
    handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with _named(path), open(handle, "w+b") as file:
        yield file
        file.flush()
        os.fsync(handle)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let errors of the system say which file they are about, such as that the disk is full."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def remove(path: Path) -> None:
    """Delete a file, if there is one, on purpose: it is not missing then."""
    if _known(path):
        _note(path.parent / CHECKSUMS, {path.name: "removed"})
    path.unlink(missing_ok=True)


def is_missing(path: Path) -> bool:
    """Whether a file was written and is gone, though nobody removed it on purpose."""
    return not path.exists() and bool(_known(path))


def safe_names(texts: Sequence[str]) -> list[str]:
    """A file name for each of several foreign strings: different ones, inside any directory, and no hidden ones.

    Letters, digits and `_+-.` stay; where that makes two alike, or nothing, a number is added.
    """
    names: list[str] = []
    for text in texts:
        word = re.sub(r"[^\w.+-]+", "_", text).lstrip(".-")[:80] or "_"
        name, number = word, 1
        while name.casefold() in (taken.casefold() for taken in names) or name == "_":
            name, number = f"{word}_{number}", number + 1
        names.append(name)
    return names


def refuse_links(directory: Path, *, error: type[HoldfastError] = LedgerError) -> None:
    """Refuse a directory with anything in it, or in its directories, but regular files and directories.

    Raises:
        HoldfastError: of the type `error`, naming the first.
    """
    for below in (directory, *(Path(entry) for entry in _entries(directory) if entry.is_dir(follow_symlinks=False))):
        for entry in _entries(below):
            if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                kind = _kind(entry.stat(follow_symlinks=False).st_mode)
                raise error(
                    f"{entry.path}: expected a regular file or directory, got {kind}; holdfast follows no links"
                )


def remove_temporary(directory: Path) -> None:
    """Delete what processes that were killed have left half written, in a directory and in those below it."""
    for below in (directory, *(path for path in directory.glob("*") if path.is_dir() and not path.is_symlink())):
        for entry in _entries(below):
            if TEMPORARY.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                Path(entry).unlink(missing_ok=True)


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _kind(mode: int) -> str:
    kinds = {"a symbolic link": stat.S_ISLNK, "a directory": stat.S_ISDIR, "a named pipe": stat.S_ISFIFO}
    return next((name for name, holds in kinds.items() if holds(mode)), "a special file")


def _known(path: Path) -> set[str]:
    """The checksums that a file may have: of all that was written there, since kills may have left any of it."""
    return _Journal(path.parent / CHECKSUMS).known(path.name)


def _note(file: Path, lines: Mapping[str, str]) -> None:
    """Append a line for each name to `checksums.txt` and flush it to disk."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with _named(file), open(os.open(file, flags, 0o666), "r+b") as journal:
        end = journal.seek(0, io.SEEK_END)
        if end:
            journal.seek(end - 1)
        torn = bool(end) and journal.read(1) != b"\n"  # a kill left half a line
        text = "".join(f"{what}  {name}\n" for name, what in lines.items())
        journal.write(f"{chr(10) * torn}{text}".encode())
        journal.flush()
        os.fsync(journal.fileno())


@functools.lru_cache(maxsize=64)
class _Journal:
    """What `checksums.txt` says, read on from where it ended the last time.

    Args:
        file: the file.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._state = file, (0, 0, 0)
        self._content, self._known = b"", dict[str, set[str]]()

    def known(self, name: str) -> set[str]:
        """All checksums of a file since it was removed last."""
        try:
            stated = os.stat(self._file, follow_symlinks=False)
        except FileNotFoundError:
            return set()
        state = (stated.st_ino, stated.st_size, stated.st_mtime_ns)
        if state != self._state:
            self._read_on(read_regular(self._file))
            self._state = state
        return self._known.get(name, set())

    def _read_on(self, content: bytes) -> None:
        if not content.startswith(self._content):
            self._content, self._known = b"", {}
        for line in content[len(self._content) :].decode("utf-8", "replace").split("\n"):
            if match := LINE.fullmatch(line):
                what, name = match.groups()
                if what == "removed":
                    self._known.pop(name, None)
                else:
                    self._known.setdefault(name, set()).add(what)
        self._content = content[: content.rfind(b"\n") + 1]


def _flush_directory(path: Path) -> None:
    """A renamed file is where it is after a loss of power only when its directory is on disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
