"""Runs by directory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import LedgerError
from holdfast.files.checked import read_checked
from holdfast.json_text import parse_json_object


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run directories among and below the paths, in the order of their recipe or, failing that, of their names."""
    runs: list[Path] = []
    for path in paths:
        below = [path] if (path / "ledger").is_dir() else [p.parent for p in path.rglob("ledger") if p.is_dir()]
        if not below:
            reason = "no results in it" if path.is_dir() else "a file" if path.exists() else "no such directory"
            raise LedgerError(f"{path}: expected a run directory, or a directory of runs; {reason}")
        runs += [run for run in sorted(below, key=_order) if run not in runs]
    return runs


def positions(directory: Path) -> dict[Path, int]:
    """Runs at any depth, each with its position in the recipe that it is of; those of no recipe are left out."""
    recorded = {file.parent: _facts(file).get("position") for file in directory.rglob("run.json")}
    return {run: position for run, position in recorded.items() if isinstance(position, int)}


def _order(run: Path) -> tuple[Path, float, Path]:
    """The directory of the run's recipe, the position in it, and the name."""
    facts = _facts(run / "run.json")
    recipe, position = facts.get("recipe"), facts.get("position")
    everything = next((path for path in run.parents if path.name == recipe), run)
    return everything, position if isinstance(position, int) else math.inf, run


def trained_runs(path: Path) -> list[Path]:
    """The runs below a directory that have weights, in the order of their recipes."""
    weights = {file.parent for label in ("best", "last") for file in path.rglob(f"{label}.safetensors")}
    return sorted((run for run in weights if (run / "run.json").exists()), key=_order)


def failed_runs(paths: Sequence[Path]) -> Mapping[str, str]:
    """The runs among and below the paths that could not be finished, by name, with the reason."""
    failed: dict[str, str] = {}
    for file in sorted(file for path in paths for file in path.rglob("run.json")):
        if (facts := _facts(file)).get("failed"):
            failed[str(facts.get("name") or file.parent)] = str(facts["failed"])
    return failed


def _facts(file: Path) -> dict[str, Any]:
    """The facts of a run, empty where they cannot be read: reading the run says what is wrong with it."""
    try:
        return parse_json_object(read_checked(file))
    except (LedgerError, OSError, ValueError):
        return {}
