"""One mutant against its tests: in a copy of the tree, in a process forked once the libraries are imported."""

import importlib
import os
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

import pytest

LIBRARIES = (
    "torch", "torch.export", "torch.fx", "scipy.stats", "scipy.optimize", "scipy.special", "sklearn.datasets", "polars",
    "hypothesis.strategies", "pydantic", "yaml", "lightning_fabric", "safetensors.torch", "PIL.Image",
)  # fmt: skip
FOLDERS = ("src", "tests", "docs", "recipes", "examples", "benchmarks")
FILES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "pyproject.toml")
IGNORED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
PASSED, FAILED, NONE_RAN = 0, 1, 5
"""Exit codes of pytest; none ran where a file of oracles is skipped because its library is missing."""


def import_libraries():
    """Import what is slow to import and never mutated."""
    for name in LIBRARIES:
        importlib.import_module(name)


def copy_tree(root, place):
    """A copy of what tests read, to be broken; the working tree is left alone."""
    for name in FOLDERS:
        shutil.copytree(root / name, Path(place) / name, ignore=IGNORED)
    for name in FILES:
        shutil.copyfile(root / name, Path(place) / name)
    return Path(place)


def survives(place, mutant, tests, seconds):
    """Whether all tests pass on a mutant; more than `seconds` count as a failure."""
    file = place / mutant.file
    file.write_bytes(mutant.mutated)
    try:
        return passes(place, tests, seconds)
    finally:
        file.write_bytes(mutant.source)


def passes(place, tests, seconds):
    """Whether all tests pass in a copy of the tree within a time."""
    child = os.fork()
    if child == 0:
        _run(place, tests)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) in (PASSED, NONE_RAN)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _run(place, tests):
    """In the child: import the copy, not the tree this runs from, and leave with what pytest says."""
    code = FAILED
    try:
        os.setsid()
        os.chdir(place)
        output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.dont_write_bytecode = True  # mutants of one second would share their bytecode
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        os.environ["PYTHONPATH"] = f"{place}/src"
        sys.path[:] = [f"{place}/src", str(place), *sys.path[1:]]
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "holdfast")]:
            del sys.modules[name]
        code = pytest.main(["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist", *tests])
    except BaseException:  # noqa: BLE001 (reported in the output; the child must not return to its parent's work)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
