"""What a stage of a transfer attack is: a change of the direction that the attack climbs along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from holdfast.attacks.search import Aim
from holdfast.gradients import input_gradient
from holdfast.rng import Streams
from holdfast.types import Classifier, Threat

Slope = Callable[[Tensor], Tensor]
"""Points, (N, ...), to the direction that an attack takes there, like the points; at first the gradient of the loss."""


@dataclass
class Climb:
    """An attack on a batch under way, as its stages see it.

    Args:
        model: the classifier.
        aim: what the attack wants of each example.
        threat: where it may search.
        step_size: in the threat's units.
        steps: how many there are.
        z: where the attack is.
        step: number of the step under way.
    """

    model: Classifier
    aim: Aim
    threat: Threat
    step_size: float
    steps: int
    z: Tensor
    step: int = 0

    def gradient_of(self, model: Classifier) -> Slope:
        """The gradient of the loss of a classifier."""
        return lambda z: input_gradient(self.aim.loss, model, z, self.aim.labels)[1]


class Stage(Protocol):
    """A frozen dataclass; called once for each batch, with a slope, it makes another one, which may remember things."""

    def __call__(self, slope: Slope, climb: Climb, rng: Streams) -> Slope:
        """The changed slope; everything random comes from `rng`, a stream for each example."""
        ...
