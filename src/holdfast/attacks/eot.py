"""Attacks on stochastic classifiers, through the mean of their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.types import Attack, Classifier, Threat
from holdfast.wrappers import ExpectedOverRandomness


@dataclass(frozen=True, kw_only=True)
class EOT:
    """Another attack, on the expectation of a stochastic classifier over its randomness.

    Args:
        attack: the attack.
        draws: passes of the classifier for each of the attack's questions.

    Reference:
        Athalye et al., Synthesizing Robust Adversarial Examples, ICML 2018, arXiv:1707.07397. See
        `wrappers.ExpectedOverRandomness`, which this puts around the model.
    """

    wraps: ClassVar = "attack"

    attack: Attack
    draws: int = 20

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"draws must be at least 1, got {self.draws}")

    @property
    def threat(self) -> Threat:
        """Where the attack may search."""
        return self.attack.threat

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """What the attack finds for each example."""
        return self.attack(ExpectedOverRandomness(model, self.draws), x, y, target=target, rng=rng)
