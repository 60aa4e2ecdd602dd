"""Runs by directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.errors import LedgerError
from holdfast.files.checked import read_checked
from holdfast.json_text import parse_json_object


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run directories among and below the paths, in order of name."""
    runs: list[Path] = []
    for path in paths:
        below = [path] if (path / "ledger").is_dir() else sorted(p.parent for p in path.rglob("ledger") if p.is_dir())
        if not below:
            reason = "no results in it" if path.is_dir() else "no such directory"
            raise LedgerError(f"{path}: expected a run directory, or a directory of runs; {reason}")
        runs += [run for run in below if run not in runs]
    return runs


def failed_runs(paths: Sequence[Path]) -> Mapping[str, str]:
    """The runs among and below the paths that could not be finished, by name, with the reason."""
    failed: dict[str, str] = {}
    for file in sorted(file for path in paths for file in path.rglob("run.json")):
        try:
            facts = parse_json_object(read_checked(file))
        except (LedgerError, ValueError):
            continue  # reading the run says what is wrong with it
        if facts.get("failed"):
            failed[str(facts.get("name") or file.parent)] = str(facts["failed"])
    return failed
