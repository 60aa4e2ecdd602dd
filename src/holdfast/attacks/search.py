"""What attacks share: what counts as success, and a batch that the lost examples leave."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.losses import towards
from holdfast.queries import narrow
from holdfast.rng import Streams
from holdfast.types import Classifier, Loss


@dataclass(frozen=True)
class Aim:
    """What an attack wants of each example: away from its label, or towards a target.

    Args:
        loss: the loss to climb at `labels`.
        labels: true labels, or targets, (N,).
        targeted: whether the labels are targets.
    """

    loss: Loss
    labels: Tensor
    targeted: bool

    @classmethod
    def of(cls, loss: Loss, y: Tensor, target: Tensor | None) -> Aim:
        """Away from `y`, or towards `target` where one is given."""
        return cls(loss, y, False) if target is None else cls(towards(loss), target, True)

    def reached(self, logits: Tensor) -> Tensor:
        """Which examples the model now sees as the attack wants, (N,) bool."""
        return (logits.argmax(1) == self.labels) == self.targeted

    def __getitem__(self, selection: Tensor) -> Aim:
        return Aim(self.loss, self.labels[selection], self.targeted)


class Front:
    """The examples still standing, with the best point found for every example.

    The best point is the one of highest loss; with `leave`, an example whose attack has succeeded keeps that point and
    leaves, so that later steps work on a smaller batch.

    Attributes:
        found: the best point of every example of the original batch.
        model, x, aim, rng: of the examples still standing.
    """

    def __init__(self, model: Classifier, x: Tensor, aim: Aim, rng: Streams, *, leave: bool) -> None:
        x = x.detach()
        self.found = x.clone()
        self.model, self.x, self.aim, self.rng = model, x, aim, rng
        self._leave = leave
        self._rows = torch.arange(len(x), device=x.device)
        self._value = x.new_full((len(x),), -torch.inf)

    def __len__(self) -> int:
        return len(self._rows)

    def record(self, z: Tensor, values: Tensor, logits: Tensor) -> Tensor | None:
        """Keep what is better than before; None if everybody stays, else the mask of those who do."""
        reached = self.aim.reached(logits) if self._leave else torch.zeros_like(values, dtype=torch.bool)
        better = (values > self._value) | reached
        self._value = torch.where(better, values, self._value)
        self.found[self._rows[better]] = z[better]
        if not reached.any():
            return None
        stay = ~reached
        self.x, self.aim, self.rng = self.x[stay], self.aim[stay], self.rng[stay]
        self.model = narrow(self.model, stay)
        self._rows, self._value = self._rows[stay], self._value[stay]
        return stay

    @torch.no_grad()
    def look(self, z: Tensor) -> None:
        """Ask the model about `z` and record the answer, without a gradient."""
        if len(self):
            logits = self.model(z)
            self.record(z, self.aim.loss(logits, self.aim.labels), logits)
