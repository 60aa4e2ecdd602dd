"""Smooth backward passes through ReLUs and max-pools."""

from __future__ import annotations

import math
from dataclasses import dataclass

from holdfast.attacks.stages.stage import Climb, Slope, share_of_depth
from holdfast.backward import ChangedBackward, silu_slope
from holdfast.rng import Streams
from holdfast.types import Classifier


@dataclass(frozen=True, kw_only=True)
class BPA:
    r"""Gradients that later ReLUs and all max-pools do not cut off.

    .. math:: \mathrm{ReLU}'(x) := \sigma(x)\,(1 + x\,(1 - \sigma(x))), \qquad
        \frac{\partial \max_j x_j}{\partial x_i} := \frac{e^{t x_i}}{\sum_j e^{t x_j}}

    The answers of the network do not change. It stands anywhere among the stages.

    Args:
        start: share of the ReLUs, in the order of the forward pass, that keep their gradient. Published for ResNet-50:
            from the second block of layer 3 on, which is a half.
        temperature: :math:`t`.

    Reference:
        Wang, Tong, He, Rethinking the Backward Propagation for Adversarial Transferability, NeurIPS 2023,
        arXiv:2306.12685. Differs: the softmax over a window subtracts its largest value first and leaves padding out;
        public code takes exp(10 x) in float32, which is infinite from x = 8.9 on, and counts padded zeros.
    """

    start: float = 0.5
    temperature: float = 10.0

    def __post_init__(self) -> None:
        share_of_depth("start", self.start)
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {self.temperature}")

    def on(self, model: Classifier) -> Classifier:
        """The network with this backward pass."""
        return ChangedBackward(model, silu_slope, self.start, self.temperature, "bpa")

    def __call__(self, slope: Slope, climb: Climb, rng: Streams) -> Slope:
        """The slope with this backward pass."""
        climb.changes.append(self.on)
        return slope
