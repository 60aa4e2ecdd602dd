"""Notice a network that has collapsed to a constant answer while it is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast.data.dataset import Split
from holdfast.statistics import entropy
from holdfast.training.selection import validation_scores
from holdfast.trust.chance import CLOSE

EXAMPLES = 1000
"""Training images on which the loss is measured after each epoch."""

PATIENCE = 2
"""Epochs in a row after which there is an alarm: a network may need one to get going."""


def constant_loss(labels: Tensor) -> float:
    r"""Cross entropy of the best constant answer, :math:`-\sum_k q_k \log q_k`, :math:`q_k` the share of class k."""
    return entropy(torch.bincount(labels).tolist())


@dataclass
class CollapseWatch:
    """Compare the clean loss on some training images with that of a constant answer after every epoch.

    Args:
        split: the training images, of which at most 1,000 at even distances are used.
        remedy: what to try first, the end of the alarm's sentence.
        epochs: how many in a row were no better than a constant answer.
    """

    split: Split
    remedy: str
    epochs: int = 0

    def __post_init__(self) -> None:
        stride = max(1, len(self.split) // EXAMPLES)
        self.split = self.split.select(torch.arange(0, len(self.split), stride)[:EXAMPLES])
        self._baseline = constant_loss(self.split.batch(slice(None))[1])

    def __call__(self, model: Any) -> str | None:
        """Measure once more; a sentence if the network has been no better for several epochs."""
        loss = validation_scores(model, self.split, None, seed=0)["loss"]
        self.epochs = self.epochs + 1 if loss >= CLOSE * self._baseline else 0
        if self.epochs < PATIENCE:
            return None
        return (
            f"the network ignores its input: for {self.epochs} epochs its loss on clean training images "
            f"({loss:.3f}) has been no better than that of a constant answer ({self._baseline:.3f}); {self.remedy}"
        )


def remedy(*, adversarial: bool, warmup: float) -> str:
    """What helps most often."""
    if adversarial and warmup == 0:
        return "let the threat grow during the first half of training (train.threat_warmup: 0.5)"
    return "try another learning rate" + (" or a longer train.threat_warmup" if adversarial else "")
