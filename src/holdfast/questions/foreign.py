"""Questions of no family: their classes by import path, and what stored values say where no code presents them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from holdfast.families import QUESTIONS
from holdfast.questions.answers import COMMON, Answers
from holdfast.questions.presenting import answered, mean, number, presented
from holdfast.show.items import Item
from holdfast.show.numbers import count
from holdfast.show.table import Cell, Table

UNLOADED = (
    "There are answers to '{}', which no installed package presents; install the package that declares their question "
    "as an entry point of holdfast.questions. These are the stored values."
)


def question_named(name: str) -> Any:
    """The class of a question: of a family, or of a module that is loaded already; no third-party code is imported.

    Args:
        name: in its family, or `package.module:Name`.

    Raises:
        KeyError: if there is none.
        RecipeError: if an installed package has one that cannot be used.
    """
    module, _, path = name.partition(":")
    if not path:
        return QUESTIONS[name]
    kind: Any = functools.reduce(
        lambda place, part: getattr(place, part, None), path.split("."), sys.modules.get(module)
    )
    if kind is None:
        raise KeyError(name)
    return kind


def presented_by_name(answers: Answers) -> list[Item]:
    """What the question of some answers presents; their stored values where its code is not loaded."""
    name = answers.each[0].key.question
    try:
        return presented(question_named(name), answers)
    except KeyError:
        return [UNLOADED.format(name), *stored_values(answers)]


def stored_values(answers: Answers) -> Iterator[Item]:
    """Means of the columns, and the numbers of records, of answers that no code presents."""
    some = answered(answers)
    yield from _columns([(name, one.rows) for name, one in some])
    yield from _records([(f"{name}, record {n}", record) for name, one in some for n, record in enumerate(one.records)])


def _columns(some: Sequence[tuple[str, pl.DataFrame]]) -> Iterator[Table]:
    """Means of the columns that are numbers in all answers."""
    names = dict.fromkeys(name for _, rows in some for name in rows.columns if name not in COMMON)
    numeric = [name for name in names if all(_is_numeric(rows, name) for _, rows in some)]
    if numeric:
        table = [
            (run, [Cell(count(len(rows))), *(mean(rows[name].cast(pl.Float64).to_list()) for name in numeric)])
            for run, rows in some
        ]
        yield Table("Means over the images, with 95 % intervals", "Run", ("Images", *numeric), table)


def _records(some: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[Table]:
    """The numbers of all records."""
    keys = list(dict.fromkeys(key for _, one in some for key, value in one.items() if isinstance(value, int | float)))
    if keys:
        yield Table(
            "Numbers in the records", "Run", keys, [(name, [_cell(one, key) for key in keys]) for name, one in some]
        )


def _is_numeric(rows: pl.DataFrame, name: str) -> bool:
    kind = rows.schema.get(name)
    return kind is not None and (kind.is_numeric() or kind == pl.Boolean)


def _cell(record: Mapping[str, Any], key: str) -> Cell:
    value = record.get(key)
    return number(float(value)) if isinstance(value, int | float) else number(None)
