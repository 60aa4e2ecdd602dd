"""A run that is on disk, for Python: its recipe, network, results, answers and report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
from torch import nn

from holdfast.errors import CheckpointError, LedgerError, ModelError
from holdfast.models.weights import load_weights
from holdfast.questions.answers import Answers, Store, shown
from holdfast.recipe.schema import Recipe
from holdfast.report import write_own_report, write_report
from holdfast.report.page import units_of
from holdfast.report.runs import read_run
from holdfast.runs.card import read_card
from holdfast.runs.code import TrustedCode
from holdfast.runs.directory import Run
from holdfast.runs.weights import Loaded, load_model
from holdfast.show.items import Note
from holdfast.show.page import to_html


@dataclass(frozen=True)
class StoredRun:
    """What is kept of a run.

    Args:
        path: its directory.
    """

    path: Path

    @property
    def facts(self) -> Mapping[str, Any]:
        """What `run.json` says: versions, data, hashes, seconds."""
        return Run(self.path).info()

    @property
    def name(self) -> str:
        """Of the run."""
        return str(self.facts.get("name") or self.path.name)

    @property
    def weights(self) -> list[str]:
        """The weights that it trained, the best first."""
        return Run(self.path).labels()

    @property
    def recipe(self) -> Recipe:
        """The recipe that its network was trained with.

        Raises:
            CheckpointError: if it trained none.
        """
        return read_card(self.path).recipe

    def load(self, weights: str | None = None, *, trust: TrustedCode = False) -> Loaded:
        """The trained network with its card; see `holdfast.load_model`.

        Args:
            weights: best or last; None for the best there are.
            trust: which factories that the weights name may be called.
        """
        return load_model(self._file(weights), trust=trust)

    def model(
        self, weights: str | None = None, *, into: nn.Module | None = None, trust: TrustedCode = False
    ) -> nn.Module:
        """The trained network, in evaluation mode.

        Args:
            weights: as in `load`.
            into: a network to put the weights into; needed for those that `holdfast.fit` trained, whose files do not
                say how to build them.
            trust: as in `load`.
        """
        if into is None:
            return self.load(weights, trust=trust).model.eval()
        _require_network(into)
        load_weights(into, self._file(weights))
        return into.eval()

    def _file(self, weights: str | None) -> Path:
        run, labels = Run(self.path), self.weights
        if weights not in (None, *labels):
            raise CheckpointError(f"{self.path}: expected one of its weights, {', '.join(labels)}; got {weights!r}")
        return run.weights(run.require_labels()[0] if weights is None else weights)

    @property
    def ledger(self) -> pl.DataFrame:
        """One row for each example and check."""
        return Run(self.path).ledger.read()

    def to_pandas(self) -> Any:
        """The ledger as a table of pandas.

        Raises:
            LedgerError: if pandas is not installed.
        """
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise LedgerError("to_pandas: expected pandas, got none; pip install pandas, or use ledger") from None
        return pandas.DataFrame(self.ledger.to_dict(as_series=False))

    @property
    def answers(self) -> dict[str, Answers]:
        """The answers to questions, by the question's name."""
        each = shown(Store(self.path).read_all(), run=self.name, place=0, classes=self._classes)
        names = dict.fromkeys(answer.key.question for answer in each)
        return {name: Answers(tuple(a for a in each if a.key.question == name), (self.name,)) for name in names}

    @property
    def _classes(self) -> tuple[str, ...]:
        return tuple(map(str, self.facts.get("data", {}).get("classes") or ()))

    def _repr_html_(self) -> str:
        """Its summary and accuracies in a notebook; of a run without results, what it trained."""
        if not Run(self.path).ledger.parts():
            return to_html(
                [Note(f"no results yet; weights: {', '.join(self.weights) or 'none'}.", "missing", self.name)]
            )
        runs = [read_run(self.path)]
        units = units_of(runs)
        return to_html([item for name in ("summary", "unfinished", "accuracy") for item in units[name].present(runs)])

    def report(self, out: Path | str | None = None) -> Path:
        """Write the report of this run alone; `report.html` in its directory unless stated otherwise."""
        return write_own_report(self.path) if out is None else write_report([self.path], Path(out))


def _require_network(into: Any) -> None:
    if not isinstance(into, nn.Module):
        got = f"the class {into.__name__}" if isinstance(into, type) else type(into).__name__
        raise ModelError(f"into: expected a network; got {got}")


def load_run(path: Path | str) -> StoredRun:
    """A run that is on disk.

    Raises:
        LedgerError: if there is none.
        CheckpointError: if something that was written there is missing.
    """
    run = Path(path)
    if not (run / "run.json").exists():
        raise LedgerError(f"{run}: expected the directory of a run, with run.json; got none")
    Run(run).check()
    return StoredRun(run)
