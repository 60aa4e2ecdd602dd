"""What goes wrong inside a process: calls of the system that fail, signals at a certain call, clocks that jump."""

import itertools
import os
import subprocess
import time
from dataclasses import dataclass

COUNTED = ("open", "fsync", "replace", "unlink", "mkdir")
"""Calls that make, change or delete files; opening counts only where it may write."""


@dataclass(frozen=True, kw_only=True)
class Shim:
    """A disturbance of one process.

    Args:
        at: number of the counted call before which it happens; None for no disturbance of calls.
        signal: signal that the process sends itself then; None to let the call fail instead.
        errno: the error that this call and all later ones of its kind fail with.
        named: whether the error names a file, as most do.
        delete: a file or directory that disappears then.
        clock: seconds by which the wall clock is off, from the call `at` on.
        monotonic: seconds by which the monotonic clock jumps ahead then, as after a suspension.
    """

    at: int | None = None
    signal: int | None = None
    errno: int | None = None
    named: bool = True
    delete: str | None = None
    clock: float = 0.0
    monotonic: float = 0.0

    def install(self):
        """Disturb this process; returns a function that tells the number of calls so far."""
        calls = itertools.count()
        happened = []
        for name in COUNTED:
            setattr(os, name, self._counted(getattr(os, name), calls, happened, name))
        for name, ahead in (("time", self.clock), ("monotonic", self.monotonic)):
            setattr(time, name, _shifted(getattr(time, name), ahead, happened))
        return lambda: next(calls)

    def _counted(self, call, calls, happened, name):
        def counted(path, *rest, **options):
            writes = name != "open" or bool(rest and rest[0] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if writes and next(calls) == self.at:
                happened.append(name)
                if self.signal is not None:
                    os.kill(os.getpid(), self.signal)
                if self.delete is not None:
                    subprocess.run(["rm", "-rf", self.delete], check=True)
            if writes and self.errno is not None and name in happened:
                raise OSError(self.errno, os.strerror(self.errno), *([path] if self.named and name != "fsync" else []))
            return call(path, *rest, **options)

        return counted


def _shifted(clock, ahead, happened):
    return lambda: clock() + (ahead if happened else 0.0)
