"""Opening ordinary files and nothing else: no link, no pipe, no directory."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

from holdfast.budget import require_budget
from holdfast.errors import HoldfastError, LedgerError

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
    with open_regular(path, error, follow) as file:
        require_budget(os.fstat(file.fileno()).st_size, str(path), error=error)
        return file.read()


def require_regular(path: Path, *, error: type[HoldfastError] = LedgerError) -> None:
    """Refuse what is no regular file, nor a link to one; see `read_regular`."""
    open_regular(path, error, follow=True).close()


def open_regular(path: Path, error: type[HoldfastError], follow: bool) -> io.BufferedReader:
    """An ordinary file, opened for reading; see `read_regular`."""
    try:
        handle = os.open(path, GUARDED | (0 if follow else os.O_NOFOLLOW))
    except ValueError as problem:  # a name with a zero in it
        raise error(f"{str(path)!r}: expected the name of a file; {problem}") from None
    except OSError as problem:
        what = "a symbolic link" if problem.errno == errno.ELOOP and not follow else problem.strerror
        raise error(f"{path}: expected a regular file, got {what}") from None
    if not stat.S_ISREG(mode := os.fstat(handle).st_mode):
        os.close(handle)
        raise error(f"{path}: expected a regular file, got {kind_of(mode)}")
    return open(handle, "rb")


def refuse_links(directory: Path, *, error: type[HoldfastError] = LedgerError) -> None:
    """Refuse a directory that holds, at any depth, anything but regular files and directories.

    Raises:
        HoldfastError: of the type `error`, naming the first.
    """
    for entry in entries_of(directory):
        if entry.is_dir(follow_symlinks=False):
            refuse_links(Path(entry), error=error)
        elif not entry.is_file(follow_symlinks=False):
            kind = kind_of(entry.stat(follow_symlinks=False).st_mode)
            raise error(f"{entry.path}: expected a regular file or directory, got {kind}; holdfast follows no links")


def entries_of(directory: Path) -> list[os.DirEntry[str]]:
    """What is in a directory, by name; nothing if there is none."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def kind_of(mode: int) -> str:
    """The kind of file that a mode of `os.stat` states, for messages."""
    kinds = {"a symbolic link": stat.S_ISLNK, "a directory": stat.S_ISDIR, "a named pipe": stat.S_ISFIFO}
    return next((name for name, holds in kinds.items() if holds(mode)), "a special file")
