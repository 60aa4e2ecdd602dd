"""Adversarial objectives in two steps: a search for points, then a loss there."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor, nn

from holdfast.objectives.batch_stats import BatchStats, Statistics
from holdfast.objectives.hooks import Hooks
from holdfast.rng import Streams, streams
from holdfast.types import Classifier, Terms


class Adversary(Protocol):
    """The two steps of an objective, as functions of its fields; the statistics are kept elsewhere."""

    @property
    def batch_stats(self) -> BatchStats:
        """What BatchNorm does, see `batch_stats`."""
        ...

    def search(self, statistics: Statistics, model: Classifier, x: Tensor, y: Tensor, rng: Streams) -> Tensor:
        """The point of each example where the loss is to be taken, detached."""
        ...

    def loss(self, statistics: Statistics, model: Classifier, x: Tensor, y: Tensor, z: Tensor) -> Terms:
        """Terms of a batch and its points."""
        ...


class TwoSteps(nn.Module):
    """An adversarial objective with its state: statistics of BatchNorm, where clean and adversarial have their own.

    Args:
        objective: its settings.
        model: the network that is trained.
    """

    def __init__(self, objective: Adversary, model: object) -> None:
        super().__init__()
        self.objective = objective
        self.statistics = Statistics(objective.batch_stats, model)

    @property
    def hooks(self) -> Hooks:
        """The search and the loss apart."""
        return Hooks(search=self.search, loss=self.loss)

    def forward(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch."""
        return self.loss(model, x, y, self.search(model, x, y, rng=rng))

    def search(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Any:
        """The point of each example where the loss is to be taken."""
        return self.objective.search(self.statistics, model, x.detach(), y, streams(rng, x))

    def loss(self, model: Classifier, x: Tensor, y: Tensor, result: Any) -> Terms:
        """Terms of a batch and its points."""
        return self.objective.loss(self.statistics, model, x, y, result)
