"""Ask a question: stored answers are not measured again, and a kill loses one block of examples or one record."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from holdfast.data.dataset import Split
from holdfast.errors import RecipeError
from holdfast.halving import BatchSize
from holdfast.modes import evaluating
from holdfast.questions.answers import Answer, AnswerKey, Store
from holdfast.questions.promises import require_measurement
from holdfast.questions.question import (
    Context,
    InRecords,
    Material,
    PerExample,
    Prepared,
    Preparing,
    Question,
    Record,
)
from holdfast.rng import Streams
from holdfast.types import Classifier

BLOCK = 128
"""Examples of a block, at most: what an interruption loses."""


@dataclass(frozen=True, kw_only=True)
class Inquiry:
    """A question about a network, ready to be measured.

    Args:
        measurement: what measures.
        key: what distinguishes its answer from others.
        model: the network.
        run: name of its run, as in the ledger.
        split: the images, taken in the order of their indices.
        where: a tensor with the device and precision of the network.
        batch_size: images of a forward pass; answers do not depend on it beyond rounding.
    """

    measurement: PerExample | InRecords
    key: AnswerKey
    model: Classifier
    run: str
    split: Split
    where: Tensor
    batch_size: int = 64


def prepare(question: Question, context: Context) -> Prepared:
    """What measures a question, with its defaults filled in.

    Raises:
        RecipeError: if the question does not fit the run.
    """
    name = type(question).__name__
    if not isinstance(question, Preparing):
        require_measurement(question, name)
        return Prepared(cast("PerExample | InRecords", question))
    try:
        prepared = question.prepared(context)
    except ValueError as error:
        raise RecipeError(f"{name}: {error}") from error
    require_measurement(prepared.measurement, f"{name}.prepared")
    return prepared


def digest_of(split: Split) -> str:
    """A short name for a choice of images."""
    return hashlib.sha256(split.index.numpy().tobytes()).hexdigest()[:16]


def ask(inquiry: Inquiry, store: Store, batch_size: BatchSize | None = None) -> Iterator[tuple[int, int]]:
    """Measure what the store lacks.

    Args:
        inquiry: the question about a network.
        store: where answers are kept.
        batch_size: images at once, which knows afterwards whether memory ran out; None for that of the inquiry.

    Yields:
        How much is done and how much there is: examples, or records.
    """
    batch_size = batch_size or BatchSize(inquiry.batch_size)
    if isinstance(inquiry.measurement, PerExample):
        yield from _ask_examples(inquiry, inquiry.measurement, store, batch_size)
    else:
        yield from _ask_records(inquiry, inquiry.measurement, store, batch_size)


def answer_of(inquiry: Inquiry, store: Store, classes: tuple[str, ...] = ()) -> Answer:
    """The stored answer, labelled with its run."""
    answer = store.read(inquiry.key)
    return Answer(answer.key, answer.records, answer.rows, inquiry.run, 0, classes)


def _ask_examples(
    inquiry: Inquiry, measurement: PerExample, store: Store, batch_size: BatchSize
) -> Iterator[tuple[int, int]]:
    split, key = inquiry.split, inquiry.key
    order, total = split.index.argsort(stable=True), len(split)
    store.begin(key)  # a report shows what an interrupted command has measured
    for number, first in enumerate(range(0, total, key.block)):
        rows = order[first : first + key.block]
        if not store.has(key, number):
            columns: dict[str, list[Any]] = {}
            done = first
            for piece, measured in batch_size.over(rows.tolist(), partial(_measured, inquiry, measurement)):
                for name, values in measured.items():
                    columns.setdefault(name, []).extend(values)
                done += len(piece)
                if done < first + len(rows):
                    yield done, total
            store.append(key, number, inquiry.run, columns)
        yield first + len(rows), total


def _measured(inquiry: Inquiry, measurement: PerExample, rows: Sequence[int]) -> dict[str, list[Any]]:
    piece = inquiry.split.select(torch.tensor(rows))
    x, y = piece.batch(slice(None))
    rng = Streams(inquiry.key.seed, inquiry.key.question, piece.index)
    with evaluating(inquiry.model):
        columns = measurement.measure(inquiry.model, x.to(inquiry.where), y.to(inquiry.where.device), rng=rng)
    _require_columns(columns, measurement, len(piece), inquiry.key.question)
    own = {"example": piece.index.tolist(), "label": piece.y.tolist()}
    return {**own, **{name: values.detach().tolist() for name, values in columns.items()}}


def _require_columns(columns: Any, measurement: PerExample, count: int, question: str) -> None:
    """Refuse columns that a question does not state, and such as have no value for each example."""
    stated = ", ".join(measurement.columns) or "none"
    if not isinstance(columns, Mapping) or {*columns} != {*measurement.columns}:
        got = (", ".join(columns) or "none") if isinstance(columns, Mapping) else type(columns).__name__
        raise RecipeError(f"question {question}: expected measure to return its columns, {stated}; got {got}")
    for name, values in columns.items():
        if not isinstance(values, Tensor) or values.shape[:1] != (count,):
            got = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
            raise RecipeError(f"question {question}: expected {name} to be a tensor with {count} values; got {got}")


def _ask_records(
    inquiry: Inquiry, measurement: InRecords, store: Store, batch_size: BatchSize
) -> Iterator[tuple[int, int]]:
    split, key = inquiry.split, inquiry.key
    x, y = split.batch(slice(None))
    material = Material(
        model=inquiry.model, x=x.to(inquiry.where), y=y.to(inquiry.where.device), index=split.index,
        rng=Streams(key.seed, key.question, split.index), seed=key.seed, batch_size=inquiry.batch_size,
    )  # fmt: skip
    records, total = list(store.records(key)), measurement.count(material)
    store.begin(key)
    if len(records) < total:
        following = _Following(measurement, material)
        while (record := batch_size.attempt(partial(following.next, tuple(records)))) is not None:
            records.append(_plain(record))
            store.write(key, records)
            yield len(records), total
    yield len(records), total


class _Following:
    """Records one after the other, with any number of images at once.

    Args:
        measurement: what makes them.
        material: what it is about.
    """

    def __init__(self, measurement: InRecords, material: Material) -> None:
        self._measurement, self._material = measurement, material
        self._records: Iterator[Record] | None = None

    def next(self, earlier: tuple[Record, ...], batch_size: int) -> Record | None:
        """The record after the earlier ones; None after the last."""
        if self._records is None or batch_size != self._material.batch_size:
            self._material = replace(self._material, batch_size=batch_size)
            self._records = self._measurement.measure_records(self._material, earlier)
        with evaluating(self._material.model):
            return next(self._records, None)


def _plain(value: Any) -> Any:
    """Numbers, texts and lists as JSON has them; numbers that are not finite are null."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, Tensor):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
