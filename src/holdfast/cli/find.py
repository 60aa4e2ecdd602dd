"""Runs by directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import LedgerError


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run directories among and below the paths, in order of name."""
    found: list[Path] = []
    for path in paths:
        below = [path] if (path / "ledger").is_dir() else sorted(p.parent for p in path.rglob("ledger") if p.is_dir())
        if not below:
            reason = "no results in it" if path.is_dir() else "no such directory"
            raise LedgerError(f"{path}: expected a run directory, or a directory of runs; {reason}")
        found += [run for run in below if run not in found]
    return found
