"""Targeted attacks in a recipe: an attack with a rule for the target class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.types import Attack, Classifier, Threat


@dataclass(frozen=True, kw_only=True)
class Targeted:
    """Aims an attack at one class per example.

    Args:
        attack: the attack that is aimed.
        at: the class after the label (`next`), the least likely one of the clean image (`least_likely`), or one of the
            others at random (`random`).

    Reference:
        Kurakin, Goodfellow, Bengio, Adversarial Examples in the Physical World, 2017, arXiv:1607.02533, section 2.3
        (the least likely class).
    """

    wraps: ClassVar = "attack"
    thorough: ClassVar = False

    attack: Attack
    at: Literal["next", "least_likely", "random"] = "next"

    @property
    def threat(self) -> Threat:
        """Where the attack may search."""
        return self.attack.threat

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The best point found for each example; a `target` given here wins over the rule."""
        rng = streams(rng, x)
        if target is None:
            target = choose_targets(self.at, model, x, y, rng)
        return self.attack(model, x, y, target=target, rng=rng)


def choose_targets(rule: str, model: Classifier, x: Tensor, y: Tensor, rng: Streams) -> Tensor:
    """A wrong class for every example, (N,)."""
    with torch.no_grad():
        logits = model(x)
    if rule == "least_likely":
        return logits.scatter(1, y[:, None], torch.inf).argmin(1)
    classes = logits.shape[1]
    offset = rng.split("target").integers(classes - 1, device=y.device) + 1 if rule == "random" else 1
    return (y + offset) % classes
