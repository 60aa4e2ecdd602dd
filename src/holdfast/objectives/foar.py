"""First-order adversarial regularisation."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from holdfast.losses import cross_entropy
from holdfast.objectives.passes import Passes
from holdfast.objectives.penalty import slope
from holdfast.objectives.start import COSTS, Start, check_start, starting_point
from holdfast.rng import Streams, streams
from holdfast.types import Classifier, Loss, Terms, Threat


@dataclass(frozen=True, kw_only=True)
class FOAR:
    r"""Cross entropy at a nearby point, and the gain of the linearised loss from there within the threat.

    .. math:: \mathrm{CE}(x') + \frac{\epsilon}{2}\, \|\nabla\ell(x')\|_*

    with the dual of the threat's norm: :math:`\ell_1` for :math:`\ell_\infty`, :math:`\ell_2` for itself. With the
    start `zero` the point is the image and all of :math:`\epsilon` is left; this is double backpropagation of the
    gradient's norm, not squared.

    Args:
        threat: the ball of the adversary.
        start: :math:`x'`: after one step of PGD, at random, or the image itself (`zero`).
        loss: :math:`\ell`, which the step of PGD raises and the regulariser limits. The other term stays the cross
            entropy.

    Reference:
        Simon-Gabriel et al., First-order Adversarial Vulnerability of Neural Networks and Input Dimension, ICML 2019,
        arXiv:1802.01421; with these starts: Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto
        2025, equation 3.4 and appendix 3.C.
    """

    threat: Threat
    start: Start = "pgd1"
    loss: Loss = cross_entropy

    def __post_init__(self) -> None:
        check_start("foar", self.start, self.threat)

    @property
    def soft_labels(self) -> bool:
        """Whether labels may be distributions: the other losses have none."""
        return self.loss is cross_entropy

    @property
    def passes(self) -> Passes:
        """Passes of one step: the start, the gradient at it and the weights."""
        return COSTS[self.start] + Passes(1, 2)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch."""
        rng = streams(rng, x)
        point, eps = starting_point(self.start, self.threat, self.loss, model, x, y, rng.split("start"))
        around = slope(self.loss, model, point, y)
        loss = cross_entropy(around.logits, y).mean()
        regulariser = eps * self.threat.dual(around.gradient).mean()
        return Terms(loss + regulariser, {"loss": loss, "regulariser": regulariser})
