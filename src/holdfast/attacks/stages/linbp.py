"""Linear backward passes through ReLUs."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.attacks.stages.stage import Climb, Slope, share_of_depth
from holdfast.backward import ChangedBackward, linear, linear_rescaled
from holdfast.rng import Streams
from holdfast.types import Classifier


@dataclass(frozen=True, kw_only=True)
class LinBP:
    r"""Gradients that go back through later ReLUs as if these were the identity.

    .. math:: \frac{\partial\ell}{\partial x} := c\, \frac{\partial\ell}{\partial\,\mathrm{ReLU}(x)}, \qquad
        c = \frac{\|g \odot 1[x > 0]\|}{\|g\|}, \quad g = \frac{\partial\ell}{\partial\,\mathrm{ReLU}(x)}

    The answers of the network do not change. It stands anywhere among the stages.

    Args:
        start: share of the ReLUs, in the order of the forward pass, that keep their gradient. Published for ResNet-50:
            from block 3_1 on, which is a half.
        rescale: multiply by :math:`c`, one number for each example and ReLU, so that no ReLU makes the gradient longer
            than its own would be. Without it the gradient of deep networks grows by orders of magnitude, and where a
            shortcut passes the ReLUs by, the branch drowns it.
        sums: whether also the ReLUs of a sum are linear, such as those after a residual block; published: no.

    Reference:
        Guo, Li, Chen, Backpropagating Linearly Improves Transferability of Adversarial Examples, NeurIPS 2020,
        arXiv:2012.03528. Differs: each ReLU is rescaled by itself, where public code rescales the branch of a
        block as a whole.
    """

    start: float = 0.5
    rescale: bool = True
    sums: bool = False

    def __post_init__(self) -> None:
        share_of_depth("start", self.start)

    def on(self, model: Classifier) -> Classifier:
        """The network with this backward pass."""
        rule = linear_rescaled if self.rescale else linear
        return ChangedBackward(model, rule, self.start, who="linbp", sums=self.sums)

    def __call__(self, slope: Slope, climb: Climb, rng: Streams) -> Slope:
        """The slope with this backward pass."""
        climb.changes.append(self.on)
        return slope
