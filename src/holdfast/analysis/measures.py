"""What analyses find of single examples: `measures/<kind>-<weights>-<digest>-<block>.parquet` in a run's directory.

A part holds the rows of one block of examples and appears whole or not at all, so that a repetition skips what is
there. Rows go with those of the ledger by `weights_hash` and `example`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from holdfast import files
from holdfast.analysis.store import Answer
from holdfast.errors import LedgerError
from holdfast.parquet import from_parquet, to_parquet

COMMON: dict[str, Any] = {
    "run": pl.String,
    "weights": pl.String,
    "weights_hash": pl.String,
    "seed": pl.Int64,
    "example": pl.Int64,
    "label": pl.Int32,
}
"""The columns that all measures have, as the ledger has them; each analysis adds its own."""


@dataclass(frozen=True)
class Measures:
    """The rows of one question about one network.

    Args:
        path: the run's directory.
        question: what was asked; its settings name the seed.
    """

    path: Path
    question: Answer

    def file(self, block: int) -> Path:
        """Where the rows of a block are kept."""
        return self.path / "measures" / f"{self._name}-{block:06d}.parquet"

    def has(self, block: int) -> bool:
        """Whether a block was written."""
        return self.file(block).exists()

    def append(self, block: int, run: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Write the rows of a block, whole or not at all; `columns` has `example`, `label` and the analysis' own."""
        asked = self.question
        same = {
            "run": run,
            "weights": asked.weights,
            "weights_hash": asked.weights_hash,
            "seed": asked.settings["seed"],
        }
        frame = pl.DataFrame(dict(columns)).with_columns(**{name: pl.lit(value) for name, value in same.items()})
        own = [name for name in frame.columns if name not in COMMON]
        frame = frame.select(*[pl.col(name).cast(kind) for name, kind in COMMON.items()], *own)
        files.write_checked(self.file(block), to_parquet(frame))

    def read(self) -> pl.DataFrame:
        """All rows in the order of the examples; no rows and no columns of its own where nothing was measured.

        Raises:
            LedgerError: if a part is not what holdfast wrote.
        """
        paths = sorted((self.path / "measures").glob(f"{self._name}-*.parquet"))
        frames = [_read(path) for path in paths]
        for path, frame in zip(paths, frames, strict=True):
            if frame.schema != frames[0].schema:
                raise LedgerError(f"{path}: expected the columns of {paths[0].name}; delete both and ask again")
        return pl.concat(frames) if frames else pl.DataFrame(schema=COMMON)

    @property
    def _name(self) -> str:
        return self.question.file(self.path).stem


@dataclass(frozen=True)
class Measured:
    """A question with its rows.

    Args:
        question: what was asked, with what was found so far.
        rows: of the examples that were measured.
    """

    question: Answer
    rows: pl.DataFrame


def read_measured(run: Path, answers: Sequence[Answer]) -> list[Measured]:
    """The rows of those answers in a run's directory that have any."""
    found = [Measured(answer, Measures(run, answer).read()) for answer in answers]
    return [one for one in found if not one.rows.is_empty()]


def _read(path: Path) -> pl.DataFrame:
    content = files.read_checked(path, remedy="; delete it and ask again")
    frame = from_parquet(content, f"{path}: expected measures by holdfast", "delete it and ask again")
    if {name: frame.schema.get(name) for name in COMMON} != COMMON:
        raise LedgerError(f"{path}: expected the columns {', '.join(COMMON)}; delete it and ask again")
    return frame
