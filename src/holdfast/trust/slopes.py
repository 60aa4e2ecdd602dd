"""Conditions of the gradient that a white-box attack follows."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from holdfast.errors import ModelError
from holdfast.gradients import NO_GRADIENT, input_gradient
from holdfast.losses import cross_entropy, margin
from holdfast.trust.rules import TOLERATED, level
from holdfast.trust.verdict import Verdict, judged
from holdfast.types import Classifier, Loss

TINY = 1e-6
"""Below this a gradient of the cross entropy has lost its digits: softmax minus one rounds at 6e-8."""

VANISHING = 0.5
"""Share of examples whose gradient may be tiny: well trained networks are confident, which is no masking."""

MASKED = "the gradient is masked: put wrappers.BPDA around the step without a gradient, or judge by black-box attacks"

NOT_FINITE = (
    "no gradient attack can run: find the operation whose derivative is not finite there, such as a division, or a "
    "square root, norm or logarithm at 0"
)


@dataclass(frozen=True)
class Slope:
    """How much gradient a loss has.

    Args:
        name: of the loss.
        examples: how many were asked.
        entries: of the gradient of an example.
        flat: examples whose gradient is zero in every entry.
        tiny: examples whose gradient is below `TINY` in every entry, the flat ones included.
        zero_entries: share of all entries that are exactly zero.
        tiny_entries: share of all entries below `TINY`.
    """

    name: str
    examples: int
    entries: int
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
            getattr(loss, "__name__", type(loss).__name__), len(x), size.shape[1], int((steepest == 0).sum()),
            int((steepest < TINY).sum()), float((size == 0).double().mean()), float((size < TINY).double().mean()),
        )  # fmt: skip

    @property
    def useful_entries(self) -> float:
        r"""Mean number of entries of an example that are not below `TINY`.

        .. math:: \frac1N \sum_i \sum_j \mathbb 1[|\nabla \ell(x_i)_j| > 10^{-6}]

        Reference:
            Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, appendix 3.F: 3072 of 3072
            on CIFAR-10 for a network trained with PGD, 1043 for one whose gradients are masked.
        """
        return self.entries * (1 - self.tiny_entries)

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.flat} of {self.examples} examples without any gradient, {self.tiny} below {TINY:g} "
            f"({100 * self.zero_entries:.1f} % of the entries zero, {100 * self.tiny_entries:.1f} % below; on average "
            f"{self.useful_entries:.1f} of {self.entries} entries of an example above)"
        )


def gradients(model: Classifier, x: Tensor, y: Tensor, loss: Loss = cross_entropy) -> Verdict:
    """Has the loss that an attack climbs a gradient at the clean images, and has another one?

    Examples whose gradient is exactly zero fail the model; tiny gradients, which mean confidence, are worth a warning.
    """
    other = margin if loss is cross_entropy else cross_entropy
    try:
        climbed, second = (Slope.of(one, model, x, y) for one in (loss, other))
    except ModelError as error:
        remedy = MASKED if NO_GRADIENT in str(error) else NOT_FINITE
        return Verdict(flag="gradients", level="fail", finding=str(error), remedy=remedy, evidence="model")
    outcome = level(climbed.flat, len(x))
    if outcome == "pass" and level(climbed.tiny, len(x), VANISHING) != "pass":
        outcome = "warn"
    useful = level(second.tiny, len(x), VANISHING) == "pass"
    remedy = f"{climbed.name} saturates: climb {second.name} or dlr, or divide the logits by a constant"
    return judged(
        "gradients",
        outcome,
        f"{climbed}; {second}",
        remedy=remedy if useful else MASKED,
        evidence="model",
        value=climbed.flat / len(x),
        limit=TOLERATED,
    )
