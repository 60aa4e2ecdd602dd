"""One check on one batch: what the ledger will say of each example."""

from __future__ import annotations

import time
from typing import Any, cast

import polars as pl
import torch
from torch import Tensor

from holdfast.checks import Check, is_attack
from holdfast.data import Split
from holdfast.errors import ModelError
from holdfast.evaluation.deadline import Deadline
from holdfast.evaluation.subject import place
from holdfast.losses import cross_entropy
from holdfast.queries import Counted
from holdfast.rng import Streams
from holdfast.threat import L2
from holdfast.types import Attack, Classifier, Corruption, Threat

Row = dict[str, Any]
"""One row of the ledger, without what is the same for a whole check."""


def run_batch(
    model: Classifier,
    part: Split,
    check: Check,
    rng: Streams,
    *,
    threat: Threat | None = None,
    until: float = float("inf"),
) -> tuple[list[Row], Tensor, Tensor]:
    """A row for each example, the images and the changed images.

    Args:
        model: the classifier, in the mode it is judged in.
        part: the examples.
        check: what to do to them.
        rng: a stream for each.
        threat: the norm that distances are measured in; None for the attack's own, and l2 for corruptions.
        until: when to raise `OutOfTimeError`.
    """
    where = place(model)
    x, y = part.batch(slice(None))
    x, y = x.to(where), y.to(where.device)
    started = time.perf_counter()
    counts = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    counted = Counted(Deadline(model, until), counts)
    if is_attack(check):
        attack = cast(Attack, check)
        z, threat = attack(counted, x, y, rng=rng), threat or attack.threat
    else:
        z, threat = cast(Corruption, check)(x, rng=rng), threat or L2(1.0)
    with torch.no_grad():
        logits = counted(z)
        if bad := part.index[logits.isnan().any(1).cpu()].tolist():
            raise ModelError(f"the logits are NaN for {len(bad)} of {len(x)} examples, first at index {bad[0]}")
        loss, prediction = cross_entropy(logits, y), logits.argmax(1)
        distance = threat.distance(z, x)
    seconds = (time.perf_counter() - started) * counts.double() / counts.sum()  # who was asked longer took longer
    columns = {
        "example": part.index, "label": y, "prediction": prediction, "correct": prediction == y, "loss": loss,
        "distance": distance, "queries": counts, "seconds": seconds,
    }  # fmt: skip
    wide = {name: column.double() if column.is_floating_point() else column for name, column in columns.items()}
    frame = pl.DataFrame({name: column.cpu().numpy() for name, column in wide.items()})
    norm = type(threat).__name__.lower()
    return [{**row, "norm": norm, "radius": None, "by": None, "steps": None} for row in frame.to_dicts()], x, z
