"""The directory of a run: where its files are and what they say."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from holdfast import files
from holdfast.errors import CheckpointError, RecipeError
from holdfast.facts import checked_facts
from holdfast.json_text import parse_json_object
from holdfast.models.weights import read_metadata
from holdfast.recipe import plain
from holdfast.recipe.plain import to_yaml
from holdfast.recipe.schema import Recipe
from holdfast.recipe.stored import parse_stored
from holdfast.results.labels import epoch_label, epoch_of
from holdfast.results.ledger import Ledger
from holdfast.yaml_text import load_yaml

FREE = (
    "analyses",
    "checks",
    "epoch_checks",
    "evaluate.batch_size",
    "evaluate.budget",
    "evaluate.channels_last",
    "evaluate.gallery",
    "evaluate.order",
)
"""What may change between two visits to a run: neither its weights nor the blocks of its ledger depend on it."""

LOCK, HOLDER = ".lock", ".lock-holder"
"""Files of a run that say that a process works there, and which."""

RESULTS = ("ledger", "gallery", "points", "verdicts", "answers", "analyses", "measures")
"""Directories of a run with what was measured."""


@dataclass(frozen=True)
class Run:
    """The directory of one run.

    Args:
        path: the directory.
    """

    path: Path

    @property
    def ledger(self) -> Ledger:
        """Its results."""
        return Ledger(self.path / "ledger")

    @property
    def gallery(self) -> Path:
        """Its perturbed images."""
        return self.path / "gallery"

    @property
    def state(self) -> Path:
        """What training needs to go on."""
        return self.path / "state.pt"

    @property
    def metrics(self) -> Path:
        """One line of JSON per epoch."""
        return self.path / "metrics.jsonl"

    @property
    def info_file(self) -> Path:
        """What was run: versions, data, hashes, seconds."""
        return self.path / "run.json"

    def weights(self, label: str) -> Path:
        """The weights of a label, `best` or `last`."""
        return self.path / f"{label}.safetensors"

    def labels(self) -> list[str]:
        """The weights there are, each content once: `best` goes first and hides an equal `last`."""
        stored = [label for label in ("best", "last") if self.weights(label).exists()]
        contents = {label: read_metadata(self.weights(label)).get("hash") for label in stored}
        return [label for n, label in enumerate(stored) if contents[label] not in [contents[o] for o in stored[:n]]]

    def epoch_labels(self) -> list[str]:
        """The weights kept during training, in the order of their epochs."""
        names = {path.stem: epoch_of(path.stem) for path in self.path.glob("epoch-*.safetensors")}
        return [epoch_label(epoch) for epoch in sorted(epoch for epoch in names.values() if epoch is not None)]

    def require_labels(self) -> list[str]:
        """The weights there are, as `labels` has them.

        Raises:
            CheckpointError: if there are none.
        """
        if not (labels := self.labels()):
            raise CheckpointError(f"{self.path}: expected a run with best.safetensors or last.safetensors; got neither")
        return labels

    def info(self) -> dict[str, Any]:
        """The content of `run.json`; empty if there is none."""
        if not self.info_file.exists():
            self._refuse_missing(self.info_file)
            return {}
        content = files.read_checked(
            self.info_file, error=CheckpointError, remedy="; restore it, or start over with --fresh"
        )
        try:
            return checked_facts(parse_json_object(content, exact=True))
        except ValueError as error:
            raise CheckpointError(
                f"{self.info_file}: expected JSON written by holdfast; {error}; delete it and repeat"
            ) from None

    def record(self, **facts: Any) -> None:
        """Add facts to `run.json`."""
        self._write({**self.info(), **facts})

    def forget(self, name: str) -> None:
        """Remove a fact from `run.json`."""
        self._write(_without(self.info(), name))

    def _write(self, facts: dict[str, Any]) -> None:
        text = json.dumps(facts, indent=2, ensure_ascii=False)
        files.write_checked(self.info_file, text.encode("utf-8", "surrogatepass") + b"\n")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep all others out, also those in this process; a process that is killed gives it back.

        Raises:
            RecipeError: if somebody works here, naming the process.
            CheckpointError: if something else stands where the lock belongs.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        files.refuse_links(self.path, error=CheckpointError)
        for name in (LOCK, HOLDER):
            if (self.path / name).is_dir():
                raise CheckpointError(f"{self.path / name}: expected a regular file, got a directory; delete it")
        lock, holder = FileLock(self.path.resolve() / LOCK), self.path / HOLDER
        try:
            lock.acquire(blocking=False)
        except Timeout:
            who = files.read_regular(holder).decode(errors="replace").strip() if holder.exists() else "unknown"
            raise RecipeError(
                f"{self.path}: another holdfast works here (process {who}); wait until it has ended"
            ) from None
        try:
            files.tidy(self.path)
            with files.replacing(holder) as file:
                file.write(f"{os.getpid()} on {platform.node()}\n".encode())
            yield
        finally:
            lock.release()

    def clear(self) -> None:
        """Delete everything, but for the lock of the process that does so."""
        files.refuse_links(self.path, error=CheckpointError)
        first, last = (self.state.name, "recipe.yaml"), (files.CHECKSUMS,)  # half of it is never taken for a run
        entries = [entry for entry in self.path.iterdir() if entry.name not in (LOCK, HOLDER)]
        for entry in sorted(entries, key=lambda one: (one.name in last, one.name not in first)):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def check(self, *, training: bool = False, reporting: bool = False) -> None:
        """Refuse a directory that leads elsewhere, or from which something is gone that was written there.

        Args:
            training: whether it is to be trained on, which needs more than weights.
            reporting: whether a report is to be made of it, which shows the epochs and the recipe.

        Raises:
            CheckpointError: naming what is in the way or missing, with the remedy.
        """
        files.refuse_links(self.path, error=CheckpointError)
        best, last = self.weights("best"), self.weights("last")
        needed = [best, self.info_file] if best.exists() else [best, last, self.info_file]
        shown, trained_on = [self.metrics, self.path / "recipe.yaml"], [last, self.state]
        self._refuse_missing(*needed, *(shown if training or reporting else []), *(trained_on if training else []))

    def _refuse_missing(self, *paths: Path) -> None:
        for path in paths:
            if files.is_missing(path):
                raise CheckpointError(
                    f"{path}: was written and is missing; restore it, delete its lines in {files.CHECKSUMS} to "
                    "continue without it, or start over with --fresh"
                )

    def begun(self) -> bool:
        """Whether anything was trained or measured."""
        return self.state.exists() or bool(self.labels()) or bool(self.ledger.parts())

    def forget_results(self) -> None:
        """Delete what was measured and on which test images; keep what was trained, and on which data."""
        for name in RESULTS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        files.remove(self.path / "report.html")
        if not (info := self.info()):
            return
        weights = {label: _without(entry, "outputs") for label, entry in info.pop("weights", {}).items()}
        seconds = _without(info.pop("seconds", {}), "evaluate")
        data = _without(_without(info.pop("data", {}), "test"), "examples")
        kept = {**_without(info, "not_run"), "data": data, "weights": weights, "seconds": seconds}
        self._write({name: value for name, value in kept.items() if value})

    def claim(self, recipe: Recipe) -> None:
        """Take the directory for a recipe, or go on in it; another recipe's work is not overwritten.

        A recipe that was refused before any work leaves nothing to lose.
        """
        file, last = self.path / "recipe.yaml", self.weights("last")
        self.check(training=True)
        if last.exists():  # equal to the best they are not looked at again
            files.read_checked(last, error=CheckpointError, remedy="; restore it, or start over with --fresh")
        if file.exists():
            changed = _changes(plain(_read_recipe(file), Recipe), plain(recipe, Recipe), "")
            relevant = [path for path in changed if not path.startswith(FREE)]
            if relevant and not self.begun():
                files.remove(self.info_file)
            elif relevant:
                raise RecipeError(
                    f"{self.path}: holds a run of another recipe (differs in {', '.join(relevant[:3])}); "
                    "choose another name or --out, or start over with --fresh"
                )
        files.write_checked(file, to_yaml(recipe, Recipe).encode())


def version() -> str:
    """The version of holdfast."""
    return importlib.metadata.version("holdfast")


def versions() -> dict[str, str]:
    """Of everything that can change a number."""
    packages = ("holdfast", "torch", "numpy", "polars", "lightning-fabric")
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}


def _without(facts: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if key != name}


def _read_recipe(file: Path) -> Recipe:
    """The resolved recipe that a run keeps."""
    try:
        content = load_yaml(files.read_checked(file, error=RecipeError, remedy="; start over with --fresh"))
    except yaml.YAMLError:
        raise RecipeError(f"{file}: expected the recipe that holdfast wrote; start over with --fresh") from None
    return parse_stored(content, where=lambda path: f"{file}: {'.'.join(path)}")


def _changes(old: Any, new: Any, path: str) -> list[str]:
    """Paths of the fields in which two plain recipes differ."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return [change for key in old for change in _changes(old[key], new[key], f"{path}.{key}".lstrip("."))]
    return [] if old == new else [path]
