"""The command line as a user runs it: in this process, or in children of a warm process that can be killed."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import polars as pl

from holdfast.cli import main
from holdfast.models import read_metadata
from holdfast.results import Ledger
from holdfast.runs import Run
from tests.training.tiny import outcome

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PROGRESS = "holdfast.show.progress.FIRST"
"""Seconds until the first line of progress: a day here, so that output does not depend on how busy the machine is."""


def holdfast(*argv, cwd):
    """Call the entry point in this process; what is no `SystemExit` is a bug and passes through."""
    out, err, here = io.StringIO(), io.StringIO(), os.getcwd()
    arguments, handlers = sys.argv, [signal.getsignal(number) for number in SIGNALS]
    sys.argv = ["holdfast", *map(str, argv)]
    os.chdir(cwd)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), patch(PROGRESS, 86400.0):
            main()
    except SystemExit as end:
        return SimpleNamespace(code=end.code, out=out.getvalue(), err=err.getvalue())
    finally:
        sys.argv = arguments
        os.chdir(here)
        for number, handler in zip(SIGNALS, handlers, strict=True):
            signal.signal(number, handler)
    raise AssertionError("main() returned")


def good(*argv, cwd):
    """What a command that must succeed prints."""
    done = holdfast(*argv, cwd=cwd)
    assert (done.code, done.err) == (0, ""), done.err
    return done.out


def said(*argv, cwd):
    """What it prints with --json."""
    return json.loads(good(*argv, "--json", cwd=cwd))


def refused(*argv, cwd):
    """The one line that a refused command says."""
    done = holdfast(*argv, cwd=cwd)
    assert done.code == 2, done.out + done.err
    assert done.out == ""
    (line,) = [line for line in done.err.split("\n") if line]
    assert line.startswith("holdfast: ")
    assert "Traceback" not in line
    return line


NURSERY = """
import glob, json, os, signal, sys, time, traceback
import lightning_fabric, polars, plotly, sklearn.datasets, torch
import holdfast.cli, holdfast.conduct, holdfast.evaluation, holdfast.report, holdfast.training

def child(job):
    os.chdir(job["cwd"])
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv, code = ["holdfast", *job["argv"]], 0
    try:
        holdfast.cli.main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(code)

def ready(job, started):
    if job["until"] is not None:
        return bool(glob.glob(os.path.join(job["cwd"], job["until"]), recursive=True))
    return job["after"] is not None and time.monotonic() - started >= job["after"]

for line in sys.stdin:
    job, started, sent = json.loads(line), time.monotonic(), False
    pid = os.fork() or child(job)
    while (found := os.waitpid(pid, os.WNOHANG))[0] == 0:
        if not sent and ready(job, started):
            os.kill(pid, job["signal"])
            sent = True
        time.sleep(0.001)
    code = os.waitstatus_to_exitcode(found[1])
    print(json.dumps({"code": code, "sent": sent, "seconds": time.monotonic() - started}), flush=True)
"""


class Nursery:
    """A process that has imported everything and runs each command line in a child of its own.

    A child is a real process to kill, without the seconds that importing torch takes each time.
    """

    def __init__(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def __call__(self, *argv, cwd, number=signal.SIGKILL, after=None, until=None):
        """Run to the end, or send a signal after some seconds or once a file matches."""
        job = {"argv": list(map(str, argv)), "cwd": str(cwd), "signal": int(number), "after": after, "until": until}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        return SimpleNamespace(**said, out=(Path(cwd) / "stdout").read_text(), err=(Path(cwd) / "stderr").read_text())

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=30)


def results(path):
    """Everything a finished run holds that a repetition must reproduce: all but the times."""
    run = Run(path)
    timeless = pl.col("steps").list.eval(pl.struct(pl.element().struct.field("step", "broke", "queries")))
    rows: pl.DataFrame = Ledger(path / "ledger").read().drop("seconds").with_columns(timeless)
    gallery = {}
    for file in sorted(run.gallery.glob("*.npz")):
        with np.load(file, allow_pickle=False) as kept:
            gallery[file.name] = {key: kept[key].tolist() for key in kept.files}
    return {
        **outcome(path),
        "metadata": {label: read_metadata(run.weights(label)) for label in ("best", "last")},
        "rows": rows.rows(),
        "parts": [part.name for part in run.ledger.parts()],
        "gallery": gallery,
    }
