"""Commands of holdfast as processes that can be signalled, waited for and looked at."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.shim import Shim

PATIENCE = 120.0
"""Seconds after which a process that has not ended hangs."""


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Args:
        code: exit code, or minus the signal; None if it had to be killed because it hung.
        out: standard output.
        err: standard error.
        seconds: from its start to its end.
    """

    code: int | None
    out: str
    err: str
    seconds: float

    @property
    def named(self):
        """Whether it ended with one line for the user."""
        lines = [line for line in self.err.split("\n") if line]
        return self.code == 2 and self.out == "" and len(lines) == 1 and lines[0].startswith("holdfast: ")


class Nursery:
    """The process that all others are forked from."""

    def __init__(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, "-m", "tests.chaos.nursery"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, request):
        """Its answer to a request."""
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, *argv, cwd, shim=None, output="first"):
        """Begin a command; `output` names the files that keep what it prints."""
        job = {"argv": list(map(str, argv)), "cwd": str(cwd), "shim": asdict(shim or Shim()), "output": output}
        return Command(self, self.ask({"start": job}), Path(cwd) / output)

    def run(self, *argv, cwd, shim=None):
        """A command from its beginning to its end."""
        return self.start(*argv, cwd=cwd, shim=shim).end()

    def close(self):
        """Let it end."""
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=30)


class Command:
    """A command that runs."""

    def __init__(self, nursery, number, output):
        self._nursery, self.number, self._output, self._code = nursery, number, output, None
        self._started = time.monotonic()

    def running(self, seconds=0.0):
        """Whether it still runs after some seconds."""
        if self._code is None:
            self._code = self._nursery.ask({"wait": self.number, "seconds": seconds})
        return self._code is None

    def send(self, signal):
        """Send a signal, if it still runs; returns whether it did."""
        if self.running():
            os.kill(self.number, signal)
            return True
        return False

    def end(self):
        """Wait for its end."""
        if hung := self.running(PATIENCE):
            os.kill(self.number, 9)
            self.running(PATIENCE)
        out, err = (self._output.with_name(f"{self._output.name}.{kind}").read_text() for kind in ("out", "err"))
        return Ended(None if hung else self._code, out, err, time.monotonic() - self._started)
