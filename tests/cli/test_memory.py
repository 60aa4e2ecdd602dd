"""Freed memory is kept for the next tensor."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from holdfast.cli.memory import keep_freed_memory

FAULTS = """
import resource, sys, torch
from holdfast.cli.memory import keep_freed_memory
print(keep_freed_memory() if "keep" in sys.argv else None)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(*argv, **said):
    """What was said about the setting, and how many pages 20 tensors of 64 MB needed, one after the other."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    environment = {**bare, "OMP_NUM_THREADS": "1", **said}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, *argv], check=True, capture_output=True, text=True, env=environment
    )
    told, count = done.stdout.split()
    return told, int(count)


@pytest.mark.skipif(os.confstr_names.get("CS_GNU_LIBC_VERSION") is None, reason="another C library")
def test_the_system_is_asked_for_the_same_pages_once():
    told, kept = faults("keep")
    assert told == "True"
    assert kept < faults()[1] / 5


def test_neither_mapped_nor_trimmed(monkeypatch):
    asked = {}
    library = SimpleNamespace(mallopt=lambda name, value: asked.update({name: value}) or 1)
    monkeypatch.setattr("ctypes.CDLL", lambda name: library)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_"))]:
        monkeypatch.delenv(name)
    assert keep_freed_memory()
    assert asked == {-4: 0, -1: 2**31 - 1}  # M_MMAP_MAX and M_TRIM_THRESHOLD of malloc.h


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_what_the_environment_says_stands(monkeypatch, name):
    monkeypatch.setenv(name, "")
    assert not keep_freed_memory()


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_freed_memory()
