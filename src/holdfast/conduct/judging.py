"""Verdicts on the numbers of a run, made after its checks."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from holdfast import data
from holdfast.attacks.usual import first_gradient_attack
from holdfast.checks import Check, is_attack
from holdfast.errors import ModelError
from holdfast.evaluation.subject import Subject, place
from holdfast.losses import cross_entropy
from holdfast.runs.directory import Run
from holdfast.runs.splits import Splits
from holdfast.trust.audit import before
from holdfast.trust.consistency import from_rows
from holdfast.trust.store import read_verdicts, stored, write_verdicts
from holdfast.trust.verdict import Verdict

EXAMPLES = 64
"""How many images the conditions without attacks are tested on."""


def judge(
    run: Run, subject: Subject, splits: Splits, checks: Sequence[Check], seed: int, images: int = EXAMPLES
) -> None:
    """Store what can be said without further attacks: the model's conditions, once, and those of the ledger's rows.

    The conditions are tested on so many images.
    """
    if not any(is_attack(check) for check in checks):
        return
    names = (subject.run, subject.weights, subject.hash, seed)
    of_classes = [one for one in read_verdicts(run.path) if not one.view]
    recorded = {(one.weights, one.weights_hash, one.seed, one.verdict.evidence) for one in of_classes}
    if (subject.weights, subject.hash[:12], seed, "model") not in recorded:
        x, y = first_images(subject, splits, images, seed)
        attack = first_gradient_attack(checks)
        loss = attack.loss if attack else cross_entropy
        try:
            results = list(
                before(subject.model, x, y, loss=loss, seed=seed, at_chance=False)
            )  # the ledger knows better
        except ModelError as error:  # the checks got through, so that their results count
            results = [Verdict(flag="gradients", level="not tested", finding=str(error), evidence="model")]
        write_verdicts(run.path, stored(*names, results))
    rows = run.ledger.read()
    write_verdicts(run.path, stored(*names, from_rows(rows.filter(rows["weights"] == subject.weights))))


def first_images(subject: Subject, splits: Splits, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Some test images, balanced over the classes, as the model takes them."""
    where = place(subject.model)
    x, y = data.subset(splits.test, min(count, len(splits.test)), seed).batch(slice(None))
    return x.to(where), y.to(where.device)
