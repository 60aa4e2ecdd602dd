"""One check on one batch: what the ledger will say of each example."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import polars as pl
import torch
from torch import Tensor

from holdfast.attacks.starting import Attempt, Pool
from holdfast.checks import Check, is_attack, is_certifier
from holdfast.data.dataset import Split
from holdfast.errors import ModelError
from holdfast.evaluation.fitting import Fitting
from holdfast.evaluation.returned import require_certificate, require_points
from holdfast.evaluation.subject import place
from holdfast.halving import BatchSize
from holdfast.losses import cross_entropy
from holdfast.rng import Streams
from holdfast.threat.l2 import L2
from holdfast.types import ABSTAIN, Attack, Certifier, Classifier, Corruption, StoredImages, Threat
from holdfast.wrappers import Counted, Deadline, WithoutNaN

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
    pool: Callable[[], Pool] | None = None,
    batch_size: BatchSize | None = None,
) -> tuple[list[Row], Tensor, Tensor]:
    """A row for each example, the images and the changed images, which for a certifier are the images themselves.

    Args:
        model: the classifier, in the mode it is judged in.
        part: the examples.
        check: what to do to them.
        rng: a stream for each.
        threat: the norm that distances are measured in; None for the attack's own, and l2 for corruptions.
        until: when to raise `OutOfTimeError`.
        pool: makes the images that decision-based attacks start from; None if there are none but noise.
        batch_size: rows of a pass without gradients, at most, from the moment that memory runs out.
    """
    where = place(model)
    watched = Deadline(Fitting(model, batch_size or BatchSize(len(part))), until)
    x, y = part.batch(slice(None))
    x, y = x.to(where), y.to(where.device)
    if is_certifier(check):
        return _certify(watched, part, x, y, cast(Certifier, check), rng), x, x
    started = time.perf_counter()
    counts = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    gradients = torch.zeros_like(counts)
    notes: list[str | None] = [None] * len(x)
    counted = Counted(Attempt(watched, notes, pool), counts, gradients=gradients)
    if is_attack(check):
        attack = cast(Attack, check)
        z = require_points(attack, attack(counted, x, y, rng=rng), x, part.index)
        threat = threat or attack.threat
    else:
        z = check.take(part.index, x, y) if isinstance(check, StoredImages) else cast(Corruption, check)(x, rng=rng)
        threat = threat or L2(1.0)
    with torch.no_grad():
        logits = counted(z)
        if bad := part.index[logits.isnan().any(1).cpu()].tolist():
            raise ModelError(f"the logits are NaN for {len(bad)} of {len(x)} examples, first at index {bad[0]}")
        loss, prediction = cross_entropy(logits, y), logits.argmax(1)
        distance = threat.distance(z, x)
    columns = {
        "example": part.index, "label": y, "prediction": prediction, "correct": prediction == y, "loss": loss,
        "distance": distance, "queries": counts, "seconds": _seconds(started, counts),
        "rank": rank_of(logits, y, prediction), "gradients": gradients,
    }  # fmt: skip
    return _noted(_rows(columns, norm=type(threat).__name__.lower(), radius=None), notes), x, z


def rank_of(logits: Tensor, y: Tensor, prediction: Tensor) -> Tensor:
    """The place of the label among the classes by their logits, (N,): 1 if and only if it is predicted.

    Of equal logits the class that comes first has the better place.
    """
    own = logits.gather(1, y[:, None])
    earlier = torch.arange(logits.shape[1], device=y.device) < y[:, None]
    ahead = ((logits > own) | ((logits == own) & earlier)).sum(1)
    return torch.where(prediction == y, 0, ahead.clamp(min=1)) + 1


def _noted(rows: Sequence[Row], notes: Sequence[str | None]) -> list[Row]:
    """Rows with why the attack could not run; an example that is wrong all the same needs no attack."""
    return [{**row, "not_run": note if row["correct"] else None} for row, note in zip(rows, notes, strict=True)]


def _certify(model: Classifier, part: Split, x: Tensor, y: Tensor, certifier: Certifier, rng: Streams) -> list[Row]:
    """Rows of a certifier: what it predicts and how far that holds; nothing is changed, and no loss is known."""
    started = time.perf_counter()
    counts = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    with torch.no_grad():
        made = certifier(Counted(WithoutNaN(model), counts), x, rng=rng)
    certificate = require_certificate(certifier, made, len(x))
    radius = certificate.radius.detach().double()
    bad = ~((radius >= 0) & radius.isfinite() & ((certificate.prediction != ABSTAIN) | (radius == 0)))
    if where := part.index[bad.cpu()].tolist():
        got = f"{float(radius[bad][0])} for {len(where)} of {len(x)} examples, first at index {where[0]}"
        raise ModelError(f"{type(certifier).__name__}: expected a finite radius, 0 where it abstains; got {got}")
    is_right = getattr(certifier, "is_right", torch.eq)  # one of groups knows when a prediction is
    prediction, correct = certificate.prediction, is_right(certificate.prediction, y)
    columns = {
        "example": part.index, "label": y, "prediction": prediction, "correct": correct,
        "distance": torch.zeros_like(radius), "radius": radius, "queries": counts, "seconds": _seconds(started, counts),
    }  # fmt: skip
    return _rows(columns, norm=certifier.norm, loss=None, rank=None, gradients=None)


def _seconds(started: float, counts: Tensor) -> Tensor:
    """The time since `started`, shared among the examples in proportion to their queries."""
    return (time.perf_counter() - started) * counts.double() / counts.sum().clamp(min=1)


def _rows(columns: dict[str, Tensor], **same: Any) -> list[Row]:
    """Rows of columns, with what is the same in all of them; nothing here is composed."""
    wide = {name: column.double() if column.is_floating_point() else column for name, column in columns.items()}
    frame = pl.DataFrame({name: column.cpu().numpy() for name, column in wide.items()})
    return [{**row, **same, "by": None, "steps": None, "not_run": None} for row in frame.to_dicts()]
