"""A process that has imported everything and runs each command of holdfast in a child: `python -m tests.chaos.nursery`.

A child is a real process to kill, without the seconds that importing torch takes. Requests and answers are lines of
JSON: `{"start": {"argv", "cwd", "shim", "output"}}` gives the child's number, and `{"wait": NUMBER, "seconds": S}` its
exit code, or null while it runs.
"""

import importlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import holdfast.cli
from holdfast.results import Ledger
from holdfast.show import progress
from holdfast.training import checkpoint, loop
from tests.chaos.shim import Shim

LIBRARIES = (
    "lightning_fabric",
    "plotly",
    "sklearn.datasets",
    "holdfast.conduct",
    "holdfast.evaluation",
    "holdfast.report",
)
SIGNALS = (signal.SIGINT, signal.SIGTERM)
TICKS, CALLS = "ticks", "calls"
"""Files beside a run: what a process has finished and must not lose, and how many calls it made."""


def main():
    """Serve requests until the input ends."""
    for name in LIBRARIES:
        importlib.import_module(name)
    progress.FIRST = 86400.0  # no lines of progress, so that output does not depend on how busy the machine is
    checkpoint.FLUSH_SECONDS = 0.0  # every epoch is written when it ends
    _tick(Ledger, "append", lambda ledger, part, rows: f"part {ledger.path / part}.parquet")
    _tick(loop._Loop, "finish_epoch", lambda loop: f"epoch {loop.finished}")
    for line in sys.stdin:
        request = json.loads(line)
        answer = _start(**request["start"]) if "start" in request else _wait(request["wait"], request["seconds"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _tick(owner, name, described):
    """Note what a method has finished, where nobody disturbs it."""
    method = getattr(owner, name)

    def ticking(self, *rest):
        result = method(self, *rest)
        with Path(TICKS).open("a") as file:
            file.write(f"{described(self, *rest)}\n")
        return result

    setattr(owner, name, ticking)


def _start(argv, cwd, shim, output):
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # no child may be interrupted before it is a command
    number = os.fork() or _child(argv, cwd, Shim(**shim), output)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    return number


def _wait(number, seconds):
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(number, os.WNOHANG)
        if ended or time.monotonic() > deadline:
            return os.waitstatus_to_exitcode(status) if ended else None
        time.sleep(0.002)


def _child(argv, cwd, shim, output):
    os.chdir(cwd)
    for number, name in ((1, f"{output}.out"), (2, f"{output}.err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv, code, calls = ["holdfast", *argv], 0, shim.install()
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        holdfast.cli.main()
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        code = 130
    except BaseException:  # noqa: BLE001 (a bug, which the output shows)
        traceback.print_exc()
        code = 1
    Path(CALLS).write_text(str(calls()))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
