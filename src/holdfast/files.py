"""Files of runs: written whole or not at all, read only as they were written, and never through a link.

A file appears under its name at once: it is written under a random temporary name that nobody else can have made,
flushed to disk and renamed, and the directory is flushed as well. Before that its SHA-256 is appended to the
`checksums.txt` of its directory, in the format of `sha256sum`. So whatever a kill or a loss of power leaves has a
checksum there, and reading refuses content without one of those that belong to the name: what was never written there.
Once a file is there for the first time, a comment says so, and its absence is an error from then on. Files of versions
that kept no checksums are read as they are.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import hashlib
import io
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from holdfast.budget import require_budget
from holdfast.errors import HoldfastError, LedgerError

CHECKSUMS = "checksums.txt"
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
"""Names of files that are being written."""
LINE = re.compile(r"([0-9a-f]{64}|removed|# written) {2}(.+)")
"""The checksum that a file is about to have, that it was deleted on purpose, or that it is there (a comment)."""
WRITTEN = "# written"
LONGEST = 40
"""Characters of a name that the name of its temporary file repeats, which could become too long otherwise."""
SETTLED = 2_000_000_000
"""Nanoseconds after which a change of a file also changes its times; some file systems count in two seconds."""
MOST_DIGESTS = 1024
"""Checksums that are remembered."""
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


def _opened(path: Path, error: type[HoldfastError], follow: bool) -> io.BufferedReader:
    try:
        handle = os.open(path, GUARDED | (0 if follow else os.O_NOFOLLOW))
    except ValueError as problem:  # a name with a zero in it
        raise error(f"{str(path)!r}: expected the name of a file; {problem}") from None
    except OSError as problem:
        what = "a symbolic link" if problem.errno == errno.ELOOP and not follow else problem.strerror
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
    with _opened(path, error, follow) as file:
        stated = os.fstat(file.fileno())
        require_budget(stated.st_size, str(path), error=error)
        content, checksums = file.read(), _checksums_of(path, error)
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
    with _opened(path, error, follow) as file:
        if checksums := _checksums_of(path, error):
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
        waiting = [(journal, unfinished.enter_context(_noted(journal, checksums)))]
        temporary: dict[Path, Path] = {}
        for path, content in contents.items():
            temporary[path], file = unfinished.enter_context(_temporary(path))
            with _named(path):
                file.write(content)
            waiting.append((path, file))
        _flush_together(waiting)
        for path in contents:
            _rename(temporary[path], path)
    _flush_directory(directory)
    if new:
        _note(journal, dict.fromkeys(new, WRITTEN), flush=False)  # may be lost with the power: it warns, and no more


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` once it is complete and on disk; an error leaves all as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_temporary(path.parent)
    with _temporary(path) as (temporary, file):
        with _named(path):
            yield file
            _flush(file)
        _rename(temporary, path)
    _flush_directory(path.parent)


@contextmanager
def _temporary(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file beside a path under a name that nobody else can have made; deleted at the end unless it was renamed.

    As long as it is open it is locked, so that no other process takes it for what a kill has left.
    """
    while True:
        temporary = path.with_name(f".{path.name[:LONGEST]}.{secrets.token_hex(8)}.tmp")
        with _named(path, always=True):
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


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _flush_together(waiting: Sequence[tuple[Path, BinaryIO]]) -> None:
    """Flush files to disk, all at the same time: the disk takes hardly longer than for one of them.

    Args:
        waiting: open files, with the paths that errors name.
    """

    def flush(one: tuple[Path, BinaryIO]) -> None:
        with _named(one[0]):
            _flush(one[1])

    try:
        with ThreadPoolExecutor(len(waiting)) as pool:
            list(pool.map(flush, waiting))
    except RuntimeError:  # the interpreter is about to end, and starts no threads any more
        for one in waiting:
            flush(one)


@contextmanager
def _named(path: Path, *, always: bool = False) -> Iterator[None]:
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


def _rename(temporary: Path, path: Path) -> None:
    with _named(path, always=True):
        temporary.replace(path)


def remove(path: Path) -> None:
    """Delete a file, if there is one, on purpose: it is not missing then."""
    if _checksums_of(path):
        _note(path.parent / CHECKSUMS, {path.name: "removed"})
    path.unlink(missing_ok=True)


def is_missing(path: Path) -> bool:
    """Whether a file was written and is gone, though nobody removed it on purpose."""
    return not path.exists() and path.name in _Journal(path.parent / CHECKSUMS).written()


def missing_files(directory: Path) -> list[Path]:
    """The files of a directory that were written and are gone, though nobody removed them on purpose."""
    written = sorted(_Journal(directory / CHECKSUMS).written())
    return [directory / name for name in written if not (directory / name).exists()]


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
    """Delete what processes that were killed have left half written in a directory; what others write now stays."""
    for entry in _entries(directory):
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
        journal = _Journal(below / CHECKSUMS)
        if new := [name for name in journal.names() if name not in journal.written() and (below / name).exists()]:
            _note(below / CHECKSUMS, dict.fromkeys(new, WRITTEN), flush=False)


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _kind(mode: int) -> str:
    kinds = {"a symbolic link": stat.S_ISLNK, "a directory": stat.S_ISDIR, "a named pipe": stat.S_ISFIFO}
    return next((name for name, holds in kinds.items() if holds(mode)), "a special file")


def _checksums_of(path: Path, error: type[HoldfastError] = LedgerError) -> set[str]:
    """The checksums that a file may have: of all that was written there, since kills may have left any of it."""
    return _Journal(path.parent / CHECKSUMS).checksums(path.name, error)


def _note(file: Path, lines: Mapping[str, str], *, flush: bool = True) -> None:
    """Append a line for each name to `checksums.txt`, and flush it to disk."""
    with _named(file), _noted(file, lines) as journal:
        if flush:
            _flush(journal)


@contextmanager
def _noted(file: Path, lines: Mapping[str, str]) -> Iterator[BinaryIO]:
    """`checksums.txt` with another line for each name, which is not on disk yet."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with _named(file), open(os.open(file, flags, 0o666), "r+b") as journal:
        end = journal.seek(0, io.SEEK_END)
        if end:
            journal.seek(end - 1)
        torn = bool(end) and journal.read(1) != b"\n"  # a kill left half a line
        text = "".join(f"{what}  {name}\n" for name, what in lines.items())
        journal.write(f"{chr(10) * torn}{text}".encode())
        journal.flush()
        yield journal


@functools.lru_cache(maxsize=64)
class _Journal:
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
                f"{self._file}: expected a regular file with checksums, got {_kind(stated.st_mode)}; holdfast follows "
                f"no links to checksums; delete it, or copy {name} to another directory"
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


def _flush_directory(path: Path) -> None:
    """A renamed file is where it is after a loss of power only when its directory is on disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _named(path):
            os.fsync(handle)
    finally:
        os.close(handle)
