"""Ask about every example, block by block; what is there is not asked again, and memory is that of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from holdfast.analysis.measures import Measures
from holdfast.data import Split
from holdfast.halving import BatchSize
from holdfast.rng import Streams

Measure = Callable[[Tensor, Tensor, Streams], Mapping[str, Tensor]]
"""Images, labels and random streams of a batch to columns, (N,) or (N, G)."""

BLOCK = 128
"""Examples in a block, at most: what an interruption loses."""


def measure(
    into: Measures, split: Split, ask: Measure, *, run: str, where: Tensor, block: int = BLOCK,
    batch_size: int | BatchSize = 64,
) -> Iterator[int]:  # fmt: skip
    """Fill the measures of a split.

    Args:
        into: where rows go; the seed of the random streams is that of its question.
        split: the examples, taken in the order of their indices.
        ask: what is asked about a batch.
        run: name of the run, as in the ledger.
        where: a tensor with the device and dtype that the model wants.
        block: examples of a part.
        batch_size: examples asked about at once; results do not depend on it beyond rounding. They are fewer from the
            moment that memory runs out.

    Yields:
        How many examples are done, after each batch and each block that was there.
    """
    order = split.index.argsort(stable=True)
    batch_size = batch_size if isinstance(batch_size, BatchSize) else BatchSize(batch_size)
    for number, first in enumerate(range(0, len(order), block)):
        rows = order[first : first + block]
        if into.has(number):
            yield first + len(rows)
            continue
        columns: dict[str, list[Any]] = {}
        done = first
        for piece, answers in batch_size.over(rows.tolist(), partial(_asked, into, split, ask, where)):
            for name, values in answers.items():
                columns.setdefault(name, []).extend(values)
            done += len(piece)
            if done < first + len(rows):
                yield done
        into.append(number, run, columns)
        yield first + len(rows)


def _asked(into: Measures, split: Split, ask: Measure, where: Tensor, rows: Sequence[int]) -> dict[str, list[Any]]:
    piece = split.select(torch.tensor(rows))
    x, y = piece.batch(slice(None))
    rng = Streams(into.question.settings["seed"], into.question.kind, piece.index)
    found = ask(x.to(where), y.to(where.device), rng)
    same = {"example": piece.index.tolist(), "label": piece.y.tolist()}
    return {**same, **{name: values.tolist() for name, values in found.items()}}
