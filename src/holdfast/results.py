"""The ledger: one row per example and check, in Parquet parts that appear whole or not at all.

A part holds the rows of one check on one block of examples. A kill at any moment loses at most the part under way, see
`holdfast.files`, and a re-run skips what is there. Everything that a report says is a query on these rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import polars as pl

from holdfast import files
from holdfast.earlier import TRAITS, with_access, with_traits
from holdfast.errors import LedgerError
from holdfast.json_text import parse_json_object
from holdfast.parquet import from_parquet, to_parquet
from holdfast.statistics import Interval, Paired, mcnemar, wilson

STEP = pl.Struct(
    {"step": pl.String, "access": pl.String, "broke": pl.Boolean, "queries": pl.Int64, "seconds": pl.Float64}
)
"""One component of a composed attack on one example; all but its name and access are null where it has not run."""

SCHEMA: dict[str, Any] = {
    "run": pl.String,  # name of the run
    "weights": pl.String,  # which of its weights: best, last, given
    "weights_hash": pl.String,  # first digits of their sha256
    "check": pl.String,  # readable and unique within a run, such as "pgd linf eps=8/255 steps=20"
    "method": pl.String,  # name of the method, such as "pgd"
    "params": pl.String,  # all its fields as JSON
    "example": pl.Int64,  # index in the data set's test split
    "label": pl.Int32,
    "prediction": pl.Int32,  # of the changed image; -1 where a certifier abstains
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
    "not_run": pl.String,  # why the attack, or a component, could not run on an example that is right; else null
    **TRAITS,  # what the check is, see `holdfast.traits.Traits`
}

NEVER_NULL = ("run", "weights", "check", "method", "params", "example", "label", "prediction", "correct")
"""Columns with a value in every row."""

FINITE = ("radius", "seconds", "size")
"""Columns whose numbers are finite; `loss` and `distance` may be NaN or infinite."""

MOST_SEVERITY = 1000
"""Of a corruption."""

MOST_CLASSES = 100_000
"""A larger label is no number of a class."""

ADDED = ("not_run", *TRAITS)
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
        frame = rows.select([pl.col(name).cast(kind) for name, kind in SCHEMA.items()])
        files.write_checked(self._file(part), to_parquet(frame))

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
        places = {check: place for place, check in enumerate(sorted(rows["check"].unique(), key=natural))}
        return rows.sort("weights", pl.col("check").replace_strict(places), "example", maintain_order=True)

    def examples(self) -> set[int]:
        """The indices of all examples that have a row."""
        return {example for path in self.parts() for example in _read_part(path)["example"]}

    def _file(self, part: str) -> Path:
        return self.path / f"{part}.parquet"


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


def _kind(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def not_attacked() -> pl.Expr:
    """Examples that count as right although the attack, or a component of it, could not run on them."""
    return pl.col("correct") & pl.col("not_run").is_not_null()


def waiting() -> pl.Expr:
    """Examples that count as right although a component of the check has not run on them yet."""
    missing = pl.col("steps").list.eval(pl.element().struct.field("broke").is_null()).list.any()
    return pl.col("correct") & missing.fill_null(False)


def unsettled() -> pl.Expr:
    """Examples that count as right although not everything ran on them: they wait, or could not be attacked."""
    return waiting() | not_attacked()


def reasons() -> pl.Expr:
    """Why examples could not be attacked, in one text for a group."""
    return pl.col("not_run").filter(not_attacked()).unique().sort().str.join("; ")


def accuracies(rows: pl.DataFrame) -> pl.DataFrame:
    """Accuracy with Wilson interval of every run, weights and check.

    Distance and queries are means over the examples, seconds a sum. Where `unsettled` is not zero, as many examples
    wait for a component of a composed attack or could not be attacked, and the accuracy is only an upper bound;
    `not_attacked` counts the latter, and `reason` says why. The accuracy of a certifier is that of the classifier it
    certifies, `abstained` counts the examples it says nothing about, and `radius` is the average certified radius, in
    which wrong answers count as 0; null for other checks.
    """
    groups = rows.group_by("run", "weights", "check", "method", "params", "family", maintain_order=True).agg(
        examples=pl.len(),
        correct=pl.col("correct").sum(),
        distance=pl.col("distance").mean(),
        queries=pl.col("queries").mean(),
        seconds=pl.col("seconds").sum(),
        unsettled=unsettled().sum(),
        not_attacked=not_attacked().sum(),
        reason=reasons(),
        abstained=(pl.col("prediction") < 0).sum(),
        radius=(pl.col("radius") * pl.col("correct")).mean(),
    )
    return with_interval(groups)


def is_certificate() -> pl.Expr:
    """Rows of certifiers: they prove something about a point instead of looking for a worse one."""
    return pl.col("radius").is_not_null()


def is_graded() -> pl.Expr:
    """Rows of corruptions by kind and severity."""
    return pl.col("family").is_not_null()


def yields(rows: pl.DataFrame) -> pl.DataFrame:
    """What each component of each composed attack did: the yield table.

    Columns: `tried` examples, how many it `broke` of them, how many it was the first to break (`credited`), how many
    wait for it (`waiting`), its `queries` and `seconds` in total, and `rate`, examples broken per second.
    """
    steps = rows.filter(pl.col("steps").list.len() > 0).explode("steps")
    one = {name: pl.col("steps").struct.field(name) for name in ("step", "broke", "queries", "seconds")}
    groups = steps.group_by("run", "weights", "check", one["step"].alias("step"), maintain_order=True).agg(
        tried=one["broke"].is_not_null().sum(),
        broke=one["broke"].sum(),
        credited=(pl.col("by") == one["step"]).sum(),
        waiting=(one["broke"].is_null() & pl.col("correct")).sum(),
        queries=one["queries"].sum(),
        seconds=one["seconds"].sum(),
    )
    ran = pl.when(pl.col("seconds") > 0).then(pl.col("seconds"))
    return groups.with_columns(rate=pl.col("broke") / ran)


def per_class(rows: pl.DataFrame) -> pl.DataFrame:
    """Accuracy with interval of every class in every check."""
    groups = rows.group_by("run", "weights", "check", "label", maintain_order=True).agg(
        examples=pl.len(), correct=pl.col("correct").sum()
    )
    return with_interval(groups.sort("run", "weights", "check", "label"))


def confusion(rows: pl.DataFrame, classes: int) -> list[list[int]]:
    """Counts by label (row) and prediction (column) of the rows given."""
    counts = [[0] * classes for _ in range(classes)]
    for label, prediction, count in rows.group_by("label", "prediction").len().iter_rows():
        if 0 <= prediction < classes:
            counts[label][prediction] = count
    return counts


def compared(rows: pl.DataFrame, first: str, second: str) -> Iterator[tuple[str, Paired]]:
    """Paired comparison of two runs, check by check, on the examples both saw."""
    left, right = rows.filter(pl.col("run") == first), rows.filter(pl.col("run") == second)
    for check in left["check"].unique(maintain_order=True):
        pair = left.filter(pl.col("check") == check).join(
            right.filter(pl.col("check") == check), on="example", how="inner", suffix="_second"
        )
        if len(pair):
            yield check, mcnemar(pair["correct"].to_list(), pair["correct_second"].to_list())


def with_interval(groups: pl.DataFrame) -> pl.DataFrame:
    """Add accuracy, low and high (95 %, Wilson) to a table with columns correct and examples."""
    counts: list[tuple[int, int]] = groups.select("correct", "examples").rows()
    intervals: list[Interval] = [wilson(correct, examples) for correct, examples in counts]
    return groups.with_columns(
        # Not by polars, which multiplies by the inverse of a constant column: equal counts give equal accuracies.
        accuracy=pl.Series([correct / examples for correct, examples in counts], dtype=pl.Float64),
        low=pl.Series([i.low for i in intervals], dtype=pl.Float64),
        high=pl.Series([i.high for i in intervals], dtype=pl.Float64),
    )
