"""What attacks share: what counts as success, and a batch that the lost examples leave."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.errors import DataError
from holdfast.gradients import input_gradient
from holdfast.losses import towards
from holdfast.rng import Streams
from holdfast.threat.l0 import L0
from holdfast.types import Classifier, Loss, Threat
from holdfast.wrappers import narrow


def require_box(x: Tensor) -> Tensor:
    """The images without their graph; images that are not in [0, 1] are refused, since no budget fits them."""
    if x.numel() and not (float(x.detach().min()) >= 0 and float(x.detach().max()) <= 1):
        low, high = float(x.detach().min()), float(x.detach().max())
        raise DataError(f"attacks expect images in [0, 1]; got values from {low:g} to {high:g}")
    return x.detach()


def require_metric_threat(method: str, threat: Threat) -> None:
    """Refuse a threat that only counts: a method whose steps have a length cannot say how many values one changes."""
    if isinstance(threat, L0):
        raise ValueError(f"{method} has no l0 attack, since its steps have a length; the attacks fgsm and fmn do")


@dataclass(frozen=True)
class Aim:
    """What an attack wants of each example: away from its label, or towards a target.

    Args:
        loss: the loss to climb at `labels`.
        labels: true labels, or targets, (N,), or whatever else the loss takes.
        targeted: whether success is to reach a class instead of leaving it.
        judged: that class, (N,), or the set of such classes, (N, K) bool; None for `labels` themselves.
    """

    loss: Loss
    labels: Tensor
    targeted: bool
    judged: Tensor | None = None

    @classmethod
    def of(cls, loss: Loss, y: Tensor, target: Tensor | None) -> Aim:
        """Away from `y`, or towards `target` where one is given."""
        return cls(loss, y, False) if target is None else cls(towards(loss), target, True)

    @property
    def classes(self) -> Tensor:
        """The class to reach or to leave, (N,), or the set of classes, (N, K) bool."""
        return self.labels if self.judged is None else self.judged

    def reached(self, logits: Tensor) -> Tensor:
        """Which examples the model now sees as the attack wants, (N,) bool."""
        predicted, classes = logits.argmax(1), self.classes
        hit = predicted == classes if classes.dim() == 1 else classes.gather(1, predicted[:, None])[:, 0]
        return hit == self.targeted

    def __getitem__(self, selection: Tensor) -> Aim:
        judged = None if self.judged is None else self.judged[selection]
        return Aim(self.loss, self.labels[selection], self.targeted, judged)


class Front:
    """The examples still standing, with the best point found for every example.

    The best point is the one of highest loss; with `leave`, an example whose attack has succeeded keeps that point and
    leaves, so that later steps work on a smaller batch.

    Attributes:
        best_points: the best point of every example of the original batch.
        lost: which of them the attack has succeeded on.
        value: the highest loss of each.
        model, x, aim, rng: of the examples still standing.

    Args:
        model: the classifier.
        x: clean images.
        aim: what the attack wants of each.
        rng: a stream for each.
        leave: whether the lost ones leave.
        groups: rows with the same number leave together, when one of them is lost; None for each on its own.
    """

    def __init__(
        self, model: Classifier, x: Tensor, aim: Aim, rng: Streams, *, leave: bool, groups: Tensor | None = None
    ) -> None:
        x = require_box(x)
        self.best_points = x.clone()
        self.lost = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        self.value = x.new_full((len(x),), -torch.inf)
        self.model, self.x, self.aim, self.rng = model, x, aim, rng
        self._leave = leave
        self._rows = torch.arange(len(x), device=x.device)
        self._groups = groups

    def __len__(self) -> int:
        return len(self._rows)

    def record(self, z: Tensor, values: Tensor, logits: Tensor) -> Tensor | None:
        """Keep what is better than before; None if everybody stays, else the mask of those who do."""
        reached = self.aim.reached(logits) if self._leave else torch.zeros_like(values, dtype=torch.bool)
        better = (values > self.value[self._rows]) | reached
        rows = self._rows[better]
        self.best_points[rows], self.value[rows] = z[better], values[better]
        if not reached.any():
            return None
        self.lost[self._rows[reached]] = True
        stay = ~(reached if self._groups is None else _with_their_groups(reached, self._groups))
        self.x, self.aim, self.rng = self.x[stay], self.aim[stay], self.rng[stay]
        self.model = narrow(self.model, stay)
        self._rows = self._rows[stay]
        self._groups = None if self._groups is None else self._groups[stay]
        return stay

    def differentiate(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Loss and gradient at `z`, recorded; and the mask of those who stay, for the caller's own tensors."""
        values, grad, logits = input_gradient(self.aim.loss, self.model, z, self.aim.labels)
        return values, grad, self.record(z, values, logits)

    @torch.no_grad()
    def look(self, z: Tensor) -> None:
        """Ask the model about `z` and record the answer, without a gradient."""
        if len(self):
            logits = self.model(z)
            self.record(z, self.aim.loss(logits, self.aim.labels), logits)


def _with_their_groups(chosen: Tensor, groups: Tensor) -> Tensor:
    """All rows whose group has a chosen row."""
    hit = torch.zeros(int(groups.max()) + 1, dtype=torch.bool, device=groups.device)
    hit[groups[chosen]] = True
    return hit[groups]
