"""What a stage of a transfer attack is: a change of the direction that the attack climbs along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from holdfast.attacks.search import Aim
from holdfast.ensembles.average import Ensemble
from holdfast.gradients import input_gradient
from holdfast.rng import Streams
from holdfast.types import Classifier, Threat
from holdfast.wrappers import behind

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
        changes: of networks, made before they are differentiated: the first one innermost.
    """

    model: Classifier
    aim: Aim
    threat: Threat
    step_size: float
    steps: int
    z: Tensor
    step: int = 0
    changes: list[Callable[[Classifier], Classifier]] = field(default_factory=list)

    def gradient_of(self, model: Classifier) -> Slope:
        """The gradient of the loss of a classifier, which stages that come later may still change."""
        changed: list[Classifier] = []

        def gradient(z: Tensor) -> Tensor:
            if not changed:
                changed.append(behind(model, self._changed))
            return input_gradient(self.aim.loss, changed[0], z, self.aim.labels)[1]

        return gradient

    def _changed(self, model: Classifier) -> Classifier:
        """A network with the changes; of an ensemble, each member has them."""
        if self.changes and isinstance(model, Ensemble):
            members = [behind(member, self._changed) for member in model.members]
            return lambda x: model.mean([member(x) for member in members])
        for change in self.changes:
            model = change(model)
        return model


class Stage(Protocol):
    """A frozen dataclass; called once for each batch, with a slope, it makes another one.

    One whose slope remembers the last step states `remembers = True`, and one that asks for the slope before it several
    times a step `repeats = True`: a stage that remembers must not stand before one that repeats.
    """

    def __call__(self, slope: Slope, climb: Climb, rng: Streams) -> Slope:
        """The changed slope; everything random comes from `rng`, a stream for each example."""
        ...


def share_of_depth(name: str, share: float) -> None:
    """Refuse what is no share."""
    if not 0 <= share <= 1:
        raise ValueError(f"{name} must lie in [0, 1], got {share}")
