"""Who works on which trial: locks that the system takes back when their process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


class Lock:
    """A lock on a file, held by at most one process and free as soon as that process is no more.

    It has the two methods that Optuna asks of the lock of its journal file. Optuna's own locks are files that a killed
    process leaves behind, for others to wait half a minute for.

    Args:
        file: made when it is missing; nothing is ever written to it.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._open: int | None = None

    def acquire(self, *, wait: bool = True) -> bool:
        """Take it, or with `wait=False` say that another process holds it."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BaseException as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                return False
            raise
        self._open = handle
        return True

    def release(self) -> None:
        """Give it back."""
        if self._open is not None:
            os.close(self._open)
            self._open = None


@dataclass
class Claims:
    """The trials that this process works on.

    Args:
        path: directory of the locks.
    """

    path: Path
    _held: dict[int, Lock] = field(default_factory=dict)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """While trials are handed out: one process at a time, so that none goes to two or is counted twice."""
        lock = Lock(self.path / "turn")
        lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def take(self, number: int) -> bool:
        """Claim a trial; False if a living process has it."""
        lock = Lock(self._file(number))
        if number in self._held or not lock.acquire(wait=False):
            return False
        self._held[number] = lock
        return True

    def knows(self, number: int) -> bool:
        """Whether a process that uses this directory has ever had the trial."""
        return self._file(number).exists()

    def drop(self, number: int) -> None:
        """Let others have the trial."""
        self._held.pop(number).release()

    def _file(self, number: int) -> Path:
        return self.path / f"{number:04d}"
