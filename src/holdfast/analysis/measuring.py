"""Ask about every example, block by block; what is there is not asked again, and memory is that of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor

from holdfast.analysis.measures import Measures
from holdfast.data import Split
from holdfast.rng import Streams

Measure = Callable[[Tensor, Tensor, Streams], Mapping[str, Tensor]]
"""Images, labels and random streams of a batch to columns, (N,) or (N, G)."""

BLOCK = 128
"""Examples in a block, at most: what an interruption loses."""


def measure(
    into: Measures, split: Split, ask: Measure, *, run: str, where: Tensor, block: int = BLOCK, batch_size: int = 64
) -> Iterator[int]:
    """Fill the measures of a split.

    Args:
        into: where rows go; the seed of the random streams is that of its question.
        split: the examples, taken in the order of their indices.
        ask: what is asked about a batch.
        run: name of the run, as in the ledger.
        where: a tensor with the device and dtype that the model wants.
        block: examples of a part.
        batch_size: examples asked about at once; results do not depend on it beyond rounding.

    Yields:
        How many examples are done, after each batch and each block that was there.
    """
    order = split.index.argsort(stable=True)
    for number, first in enumerate(range(0, len(order), block)):
        rows = order[first : first + block]
        if into.has(number):
            yield first + len(rows)
            continue
        columns: dict[str, list[Any]] = {}
        for start in range(0, len(rows), batch_size):
            piece = split.select(rows[start : start + batch_size])
            for name, values in _asked(into, piece, ask, where).items():
                columns.setdefault(name, []).extend(values)
            if start + batch_size < len(rows):
                yield first + start + len(piece)
        into.append(number, run, columns)
        yield first + len(rows)


def _asked(into: Measures, piece: Split, ask: Measure, where: Tensor) -> dict[str, list[Any]]:
    x, y = piece.batch(slice(None))
    rng = Streams(into.question.settings["seed"], into.question.kind, piece.index)
    found = ask(x.to(where), y.to(where.device), rng)
    same = {"example": piece.index.tolist(), "label": piece.y.tolist()}
    return {**same, **{name: values.tolist() for name, values in found.items()}}
