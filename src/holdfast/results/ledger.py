"""The ledger: one row per example and check, in Parquet parts that appear whole or not at all.

A part holds the rows of one check on one block of examples. A kill at any moment loses at most the part under way, see
`holdfast.files`, and a re-run skips what is there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import polars as pl

from holdfast import files
from holdfast.earlier import TRAITS, with_access, with_traits
from holdfast.errors import LedgerError
from holdfast.json_text import parse_json_object
from holdfast.parquet import from_parquet, to_parquet

STEP = pl.Struct(
    {"step": pl.String, "access": pl.String, "broke": pl.Boolean, "queries": pl.Int64, "seconds": pl.Float64}
)
"""One component of a composed attack on one example; all but its name and access are null where it has not run."""

OF_A_CHECK = ("method", "norm", "certifies")
"""Columns that are the same in all rows of a check."""

SCHEMA: dict[str, Any] = {
    "run": pl.String,  # name of the run
    "weights": pl.String,  # which of its weights: best, last, given
    "weights_hash": pl.String,  # first digits of their sha256
    "check": pl.String,  # readable and unique within a run, such as "pgd linf eps=8/255 steps=20"
    "method": pl.String,  # name of the method, such as "pgd"
    "params": pl.String,  # all its fields as JSON
    "example": pl.Int64,  # index in the data set's test split
    "label": pl.Int32,
    "prediction": pl.Int32,  # of the changed image, a group in certificates of groups; -1 where a certifier abstains
    "correct": pl.Boolean,
    "loss": pl.Float64,  # cross entropy of the changed image; null for certifiers
    "distance": pl.Float64,  # from the clean image, in `norm`
    "norm": pl.String,
    "radius": pl.Float64,  # certified; null for other checks
    "queries": pl.Int64,  # forward passes spent on this example
    "seconds": pl.Float64,  # share of the block's time; the one column that a repetition does not reproduce
    "seed": pl.Int64,
    "by": pl.String,  # which component of a composed attack broke the example; null for other checks
    "steps": pl.List(STEP),  # what each of its components did to the example, in the order of running; else null
    "rank": pl.Int32,  # of the label among the classes, 1 for the largest logit; null for certifiers
    "not_run": pl.String,  # why the attack, or a component, could not run on an example that is right; else null
    **TRAITS,  # what the check is, see `holdfast.traits.Traits`
    "gradients": pl.Int64,  # backward passes spent on this example, where the classes have a hierarchy
    "to_the_end": pl.Boolean,  # whether an attack goes on behind the first wrong answer, where they have one
}

NEVER_NULL = ("run", "weights", "check", "method", "params", "example", "label", "prediction", "correct")
"""Columns with a value in every row."""

FINITE = ("radius", "seconds", "size")
"""Columns whose numbers are finite; `loss` and `distance` may be NaN or infinite."""

MOST_SEVERITY = 1000
"""Of a corruption."""

MOST_CLASSES = 100_000
"""A larger label is no number of a class."""

OF_HIERARCHIES = ("gradients", "to_the_end")
"""Columns that are written only where they hold something: a run without a hierarchy has none of them."""

ADDED = ("rank", "not_run", *TRAITS, *OF_HIERARCHIES)
"""Columns that older ledgers do not have: null, or implied by name and fields of the check."""


@dataclass(frozen=True)
class Ledger:
    """The results of one run, a directory of Parquet parts.

    Args:
        path: the directory; made when the first part is written.
    """

    path: Path

    def has(self, part: str) -> bool:
        """Whether the part of this name was written."""
        return self._file(part).exists()

    def append(self, part: str, rows: pl.DataFrame) -> None:
        """Write one part, whole or not at all."""
        self.append_together({part: rows})

    def append_together(self, parts: Mapping[str, pl.DataFrame]) -> None:
        """Write several parts, each whole or not at all, with one wait for the disk."""
        files.write_together({self._file(part): to_parquet(_as_stored(rows)) for part, rows in parts.items()})

    def part(self, part: str) -> pl.DataFrame:
        """The rows of one part."""
        return _read_part(self._file(part))

    def parts(self) -> list[Path]:
        """The files written so far, in order of name."""
        return sorted(self.path.glob("*.parquet"))

    def read(self) -> pl.DataFrame:
        """All rows, ordered by weights, check (in the order of `natural`) and example."""
        frames = [_read_part(path) for path in self.parts()]
        if not frames:
            raise LedgerError(f"{self.path}: expected a ledger with results, got none; run `holdfast evaluate` first")
        rows = pl.concat(frames)
        _require_one_method_per_check(rows, self.path)
        places = {check: place for place, check in enumerate(sorted(rows["check"].unique(), key=natural))}
        return rows.sort("weights", pl.col("check").replace_strict(places), "example", maintain_order=True)

    def examples(self) -> set[int]:
        """The indices of all examples that have a row."""
        return {example for path in self.parts() for example in _read_part(path)["example"]}

    def _file(self, part: str) -> Path:
        return self.path / f"{part}.parquet"


def _require_one_method_per_check(rows: pl.DataFrame, path: Path) -> None:
    """Refuse rows that have the name of one check and are about several, which no version writes."""
    stated = rows.group_by("weights", "check").agg(pl.col(*OF_A_CHECK).drop_nulls().n_unique())
    for name in OF_A_CHECK:
        if several := stated.filter(pl.col(name) > 1)["check"].to_list():
            raise LedgerError(f"{path}: expected one {name} for each check; got several for '{min(several)}'")


def natural(check: str) -> tuple[bool, list[tuple[bool, float, str]]]:
    """A key that puts clean images first and numbers, fractions too, in the order of their size."""
    words = re.split(r"(\d+(?:\.\d+)?(?:e-?\d+)?(?:/\d+)?)", check)
    return check != "clean", [(number % 2 == 0, *_worth(word, number % 2 == 1)) for number, word in enumerate(words)]


def _worth(word: str, is_number: bool) -> tuple[float, str]:
    top, _, bottom = word.partition("/")
    return (float(top) / float(bottom or 1) if is_number and float(bottom or 1) else 0.0), word


def _read_part(path: Path) -> pl.DataFrame:
    content = files.read_checked(path, remedy="; delete it and evaluate again")
    frame = from_parquet(content, f"{path}: expected a Parquet part of a ledger", "delete it and evaluate again")
    frame = frame.with_columns(pl.lit(None, SCHEMA[name]).alias(name) for name in ADDED if name not in frame.columns)
    frame = with_access(frame)
    if set(frame.columns) == set(SCHEMA):  # what was added comes last
        frame = frame.select(list(SCHEMA))
    if list(frame.columns) != list(SCHEMA):
        raise LedgerError(f"{path}: expected the columns {', '.join(SCHEMA)}; got {', '.join(frame.columns)}")
    schema = frame.schema  # which Polars makes anew whenever it is asked for
    for name, kind in SCHEMA.items():
        if schema[name] != kind:
            raise LedgerError(f"{path}: expected {_kind(kind)} in the column {name}; got {_kind(schema[name])}")
    _require_values(path, frame)
    frame = with_traits(frame)
    _require_params(path, frame)
    return frame


def _require_values(path: Path, frame: pl.DataFrame) -> None:
    """Refuse rows that say nothing of what every row must say, and classes and numbers that cannot be."""
    missing = [name for name in NEVER_NULL if frame[name].null_count()]
    if missing:
        raise LedgerError(f"{path}: expected a value in every row of the column {missing[0]}; got none in some")
    for name, lowest in (("example", 0), ("label", 0), ("prediction", -1)):
        low, high = cast("int", frame[name].min() or 0), cast("int", frame[name].max() or 0)
        if low < lowest or (name != "example" and high >= MOST_CLASSES):
            limit = f"{lowest} or more" if name == "example" else f"{lowest} to {MOST_CLASSES - 1}"
            raise LedgerError(f"{path}: expected {limit} in the column {name}; got {low!r} to {high!r}")
    if (first := frame.filter((pl.col("rank") < 1) | (pl.col("rank") > MOST_CLASSES))["rank"]).len():
        raise LedgerError(f"{path}: expected 1 to {MOST_CLASSES} in the column rank; got {first[0]}")
    for name in FINITE:
        if (values := frame.filter(~pl.col(name).is_finite())[name]).len():
            raise LedgerError(f"{path}: expected finite numbers in the column {name}; got {values[0]}")


def _require_params(path: Path, frame: pl.DataFrame) -> None:
    """Refuse fields of checks that are no JSON object, and corruptions without kind and severity."""
    for params, graded in frame.select("params", is_graded()).unique(maintain_order=True).iter_rows():
        try:
            fields = parse_json_object(params)
        except ValueError as error:
            raise LedgerError(f"{path}: expected a JSON object in the column params; {error}") from None
        if not graded:
            continue
        kind, severity = fields.get("kind"), fields.get("severity")
        if not (isinstance(kind, str) and type(severity) is int and 0 <= severity <= MOST_SEVERITY):
            raise LedgerError(
                f"{path}: expected kind, a text, and severity, 0 to {MOST_SEVERITY}, in the column params of a "
                f"corruption with a family; got {str(kind)[:40]!r} and {str(severity)[:40]!r}"
            )


def is_graded() -> pl.Expr:
    """Rows of corruptions by kind and severity."""
    return pl.col("family").is_not_null()


def _kind(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def _as_stored(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with the columns of a ledger; those of hierarchies only where they hold something."""
    empty = [name for name in OF_HIERARCHIES if name not in rows.columns or rows[name].is_null().all()]
    return rows.select([pl.col(name).cast(kind) for name, kind in SCHEMA.items() if name not in empty])
