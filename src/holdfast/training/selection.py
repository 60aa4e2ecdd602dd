"""Model selection: which weights are the best, judged on held-out training images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from holdfast.attacks.persistence import make_persistent
from holdfast.corruptions.bar.corruption import Bar
from holdfast.corruptions.bar.tables import KINDS
from holdfast.data.dataset import Split
from holdfast.errors import ModelError
from holdfast.halving import BatchSize, Halved
from holdfast.losses import cross_entropy
from holdfast.modes import evaluating
from holdfast.recipe.schema import Selection
from holdfast.rng import Streams
from holdfast.types import Attack, Classifier, Corruption

BATCH = 256
"""Images at once, as long as memory suffices."""


@dataclass(frozen=True)
class Verdict:
    """The result of one judgement."""

    scores: dict[str, float] | None
    best: bool
    halved: Halved | None = None


class Judge:
    """Scores a model on the validation split and remembers the best.

    Args:
        selection: what counts.
        split: the validation images; without them nothing is judged.
        seed: of the attack.
        held_out: the network that points are tried on where they count, on the device of the model.
    """

    def __init__(
        self, selection: Selection, split: Split | None, seed: int, held_out: Classifier | None = None
    ) -> None:
        self._selection, self._split, self._seed, self._held_out = selection, split, seed, held_out
        self._corrupted: Split | None = None
        self._batch_size = BatchSize(BATCH)
        self._best, self._stale = -math.inf, 0

    @property
    def impatient(self) -> bool:
        """Whether patience has run out."""
        patience = self._selection.patience
        return patience is not None and self._stale >= patience

    def __call__(self, model: Any, epoch: int, epochs: int) -> Verdict:
        """Judge the weights after an epoch; the last epoch is always judged."""
        if self._split is None or (epoch % self._selection.every and epoch != epochs):
            return Verdict(None, False)
        attack = None if self._selection.metric == "transfer_rate" else self._selection.attack
        scores = validation_scores(model, self._split, attack, self._seed, self._batch_size)
        if self._selection.metric == "transfer_rate":
            assert self._selection.attack is not None, "refused before"
            assert self._held_out is not None, "refused before"
            points = make_persistent(self._selection.attack)
            scores["transfer_rate"] = transfer_rate(
                model, self._held_out, self._split, points, self._seed, self._batch_size
            )
        if self._selection.metric == "corrupted_accuracy":
            if self._corrupted is None:
                self._corrupted = corrupted_split(self._split, self._selection.corruptions or C_BAR, self._seed)
            corrupted = validation_scores(model, self._corrupted, None, self._seed, self._batch_size)
            scores["corrupted_accuracy"] = corrupted["accuracy"]
        value = scores[self._selection.metric] * (-1 if self._selection.metric == "loss" else 1)
        best = value >= self._best  # of equal ones the later, which has learnt longer
        self._stale = 0 if value > self._best else self._stale + 1
        self._best = max(value, self._best)
        return Verdict(scores, best, self._batch_size.news())

    def state(self) -> dict[str, Any]:
        """What to save."""
        return {"best": self._best, "stale": self._stale}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._best, self._stale = state["best"], state["stale"]


C_BAR: tuple[Corruption, ...] = tuple(Bar(kind=kind, severity=severity) for severity in range(1, 6) for kind in KINDS)
"""What validation images meet where a recipe asks for corruptions and names none."""


def corrupted_split(split: Split, corruptions: Sequence[Corruption], seed: int) -> Split:
    """The images, each changed by one of the corruptions in turn of the example indices, in 8 bits."""
    x = torch.empty(split.x.shape, dtype=torch.uint8)
    for number, corruption in enumerate(corruptions):
        rows = (split.index % len(corruptions) == number).nonzero()[:, 0]
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH]
            clean, _ = split.select(part).batch(slice(None))
            z = corruption(clean, rng=Streams(seed, "corrupted validation", split.index[part]))
            x[part] = z.clamp(0, 1).mul(255).round().to(torch.uint8)
    return replace(split, x=x)


def validation_scores(
    model: Any, split: Split, attack: Attack | None, seed: int, batch_size: BatchSize | None = None
) -> dict[str, float]:
    """Loss, accuracy and, with an attack, robust accuracy, in eval mode; the same for any number of images at once."""
    like = next(iter(model.parameters()), torch.empty(0))

    def judge(rows: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        part = split.select(torch.tensor(rows))
        x, y = part.batch(slice(None))
        x, y = x.to(like), y.to(like.device)
        with torch.no_grad():
            logits = model(x)
        hit = logits.argmax(1) == y
        robust = hit if attack is None else hit & _robust(model, x, y, attack, Streams(seed, "validation", part.index))
        return cross_entropy(logits, y).double().cpu(), hit.cpu(), robust.cpu()

    with evaluating(model):
        results = [result for _, result in (batch_size or BatchSize(BATCH)).over(range(len(split)), judge)]
    loss, right, robust = (torch.cat(values) for values in zip(*results, strict=True))
    scores = {"loss": float(loss.sum()) / len(split), "accuracy": int(right.sum()) / len(split)}
    return scores if attack is None else {**scores, "robust_accuracy": int(robust.sum()) / len(split)}


def transfer_rate(
    model: Any, target: Classifier, split: Split, attack: Attack, seed: int, batch_size: BatchSize | None = None
) -> float:
    """Error rate of a target at points that an attack makes on a model, on the images that the target gets right.

    Whether the model is right does not matter, so that the images are the same after every epoch.

    Raises:
        ModelError: if the target gets no image right.
    """
    like = next(iter(model.parameters()), torch.empty(0))

    def judge(rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        part = split.select(torch.tensor(rows))
        x, y = part.batch(slice(None))
        x, y = x.to(like), y.to(like.device)
        z = attack(model, x, y, rng=Streams(seed, "transfer to a held-out network", part.index))
        with torch.no_grad():
            right, wrong = target(x).argmax(1) == y, target(z).argmax(1) != y
        return right.cpu(), (right & wrong).cpu()

    with evaluating(model):
        results = [result for _, result in (batch_size or BatchSize(BATCH)).over(range(len(split)), judge)]
    counted, errors = (int(torch.cat(values).sum()) for values in zip(*results, strict=True))
    if not counted:
        raise ModelError("selection: the held-out network gets no validation image right; expected a trained one")
    return errors / counted


def _robust(model: Any, x: Tensor, y: Tensor, attack: Attack, rng: Streams) -> Tensor:
    z = attack(model, x, y, rng=rng)
    with torch.no_grad():
        held: Tensor = model(z).argmax(1) == y
    return held
