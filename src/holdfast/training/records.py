"""What training says while it goes on, and the file that keeps it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from holdfast import files
from holdfast.errors import CheckpointError
from holdfast.halving import Halved
from holdfast.training.cost import Cost
from holdfast.training.state import START_OVER


@dataclass(frozen=True)
class Step:
    """One step done: for progress."""

    step: int
    total: int
    epoch: int
    loss: float


@dataclass(frozen=True)
class Preparation:
    """Something made that an epoch needs before its next step, or a fit instead of epochs (0): for progress."""

    done: int
    total: int
    epoch: int
    halved: Halved | None = None


@dataclass(frozen=True)
class Epoch:
    """One finished epoch, as recorded in `metrics.jsonl`.

    Args:
        epoch: number, from 1.
        step: steps done.
        lr: learning rate of the last one.
        train: means of the objective and its parts over the examples.
        validation: scores, where the weights were judged.
        best: whether they are the best so far.
        seconds: of the epoch, judgement included.
        cost: of a step.
        alarm: what went wrong, in one sentence: the objective's own alarm, or a network that ignores its input.
        halved: how many validation images are judged at once from now on, if memory ran out; not in `metrics.jsonl`.
    """

    epoch: int
    step: int
    lr: float
    train: dict[str, float]
    validation: dict[str, float] | None
    best: bool
    seconds: float
    cost: Cost | None = None
    alarm: str | None = None
    halved: Halved | None = None


def line(epoch: Epoch) -> bytes:
    """A line of `metrics.jsonl`."""
    facts = asdict(epoch)
    del facts["halved"]
    return json.dumps(facts).encode() + b"\n"


def cut(path: Path, epochs: int) -> list[bytes]:
    """Keep the lines of the first epochs: a kill may have come between a line and its state."""
    if len(before := lines(path)) < epochs:
        raise CheckpointError(
            f"{path}: expected {epochs} epochs, as the training state has; got {len(before)}; {START_OVER}"
        )
    if len(before) > epochs:
        files.write_checked(path, b"".join(before[:epochs]))
    return before[:epochs]


def lines(path: Path) -> list[bytes]:
    """The lines written so far, one per epoch."""
    if not path.exists():
        return []
    content = files.read_checked(path, error=CheckpointError, remedy=f"; {START_OVER}")
    return content.splitlines(keepends=True)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """What the lines written so far say."""
    for number, text in enumerate(lines(path), 1):
        try:
            epoch = json.loads(text)
        except (ValueError, RecursionError):
            epoch = None
        if not isinstance(epoch, dict):
            raise CheckpointError(f"{path}, line {number}: expected an epoch as JSON; {START_OVER}")
        yield epoch
