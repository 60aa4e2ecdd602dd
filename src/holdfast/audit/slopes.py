"""Conditions of the gradient that a white-box attack follows."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from holdfast.errors import ModelError
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy, margin
from holdfast.types import Classifier, Loss
from holdfast.verdicts import Verdict
from holdfast.verdicts.rules import TOLERATED, level

TINY = 1e-6
"""Below this a gradient of the cross entropy has lost its digits: softmax minus one rounds at 6e-8."""

VANISHING = 0.5
"""Share of examples whose gradient may be tiny: well trained networks are confident, which is no masking."""

MASKED = "the gradient is masked: put wrappers.BPDA around the step without a gradient, or judge by black-box attacks"


@dataclass(frozen=True)
class Slope:
    """How much gradient a loss has.

    Args:
        name: of the loss.
        examples: how many were asked.
        flat: examples whose gradient is zero in every entry.
        tiny: examples whose gradient is below `TINY` in every entry, the flat ones included.
        zero_entries: share of all entries that are exactly zero.
        tiny_entries: share of all entries below `TINY`.
    """

    name: str
    examples: int
    flat: int
    tiny: int
    zero_entries: float
    tiny_entries: float

    @classmethod
    def of(cls, loss: Loss, model: Classifier, x: Tensor, y: Tensor) -> Slope:
        """Measured at the clean images."""
        size = input_gradient(loss, model, x, y)[1].flatten(1).abs()
        steepest = size.amax(1)
        return cls(
            getattr(loss, "__name__", type(loss).__name__), len(x), int((steepest == 0).sum()),
            int((steepest < TINY).sum()), float((size == 0).double().mean()), float((size < TINY).double().mean()),
        )  # fmt: skip

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.flat} of {self.examples} examples without any gradient, {self.tiny} below {TINY:g} "
            f"({100 * self.zero_entries:.1f} % of the entries zero, {100 * self.tiny_entries:.1f} % below)"
        )


def gradients(model: Classifier, x: Tensor, y: Tensor, loss: Loss = cross_entropy) -> Verdict:
    """Has the loss that an attack climbs a gradient at the clean images, and has another one?

    Examples whose gradient is exactly zero fail the model; tiny gradients, which mean confidence, are worth a warning.
    """
    other = margin if loss is cross_entropy else cross_entropy
    try:
        climbed, second = (Slope.of(one, model, x, y) for one in (loss, other))
    except ModelError as error:
        return Verdict(flag="gradients", level="fail", finding=str(error), remedy=MASKED, evidence="model")
    outcome = level(climbed.flat, len(x))
    if outcome == "pass" and level(climbed.tiny, len(x), VANISHING) != "pass":
        outcome = "warn"
    useful = level(second.tiny, len(x), VANISHING) == "pass"
    remedy = f"{climbed.name} saturates: climb {second.name} or dlr, or divide the logits by a constant"
    return Verdict(
        flag="gradients",
        level=outcome,
        finding=f"{climbed}; {second}",
        remedy="" if outcome == "pass" else remedy if useful else MASKED,
        evidence="model",
        value=climbed.flat / len(x),
        limit=TOLERATED,
    )
