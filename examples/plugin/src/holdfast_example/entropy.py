"""The question of the entropy of predictions. Its module imports no torch, so that help and reports start quickly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from holdfast.questions.answers import Answers
from holdfast.questions.presenting import answered, quartile_table, share_chart
from holdfast.questions.question import Needs
from holdfast.show.items import Item

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.rng import Streams
    from holdfast.types import Classifier


@dataclass(frozen=True, kw_only=True)
class Entropy:
    r"""Entropy of predictions: how undecided the network is about each image.

    .. math:: -\sum_k p_k \log p_k, \qquad p = \mathrm{softmax}(f(x) / T)

    Args:
        temperature: :math:`T`, by which the logits are divided first.
    """

    title: ClassVar = "Entropy of predictions"
    needs: ClassVar = Needs.NETWORK
    columns: ClassVar = {"entropy": "entropy of the predicted probabilities, in nats"}

    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature must be positive, got {self.temperature}")

    def measure(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams) -> Mapping[str, Tensor]:
        """One number for each image."""
        import torch

        with torch.no_grad():
            log_p = (model(x).double() / self.temperature).log_softmax(1)
        return {"entropy": -(log_p.exp() * log_p).sum(1)}

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Quartiles of every run, then their distributions."""
        if answered(answers):
            yield quartile_table(answers, "entropy", "Entropy of predictions, nats")
            yield share_chart(answers, "entropy", "Images by entropy", "entropy that the share of images has at most")
