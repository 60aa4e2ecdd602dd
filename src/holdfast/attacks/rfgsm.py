"""The fast gradient method after a random step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from holdfast.attacks.search import Aim, require_metric_threat
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.traits import Access
from holdfast.types import Classifier, Loss, Threat


@dataclass(frozen=True, kw_only=True)
class RFGSM:
    r"""A random step out of the sharp curvature around `x`, then one gradient step with the rest of the budget.

    .. math:: x' = x + \rho\epsilon\, s(u), \qquad z = x' + (1 - \rho)\,\epsilon\, s(\nabla \ell(f(x'), y))

    with normal :math:`u` and :math:`s` the steepest direction of the norm, the sign in :math:`\ell_\infty`; both points
    are clipped to the box.

    Args:
        threat: the set and its geometry.
        share: :math:`\rho`, the part of the budget spent at random.
        loss: per-example loss to climb.

    Reference:
        Tramèr et al., Ensemble Adversarial Training: Attacks and Defenses, ICLR 2018, arXiv:1705.07204, section 3.3
        (there :math:`\alpha = \rho\epsilon = \epsilon/2`).
    """

    access: ClassVar = Access.GRADIENTS
    persistent: ClassVar = True
    thorough: ClassVar = False

    threat: Threat
    share: float = 0.5
    loss: Loss = cross_entropy

    def __post_init__(self) -> None:
        require_metric_threat("rfgsm", self.threat)
        if not 0 < self.share < 1:
            raise ValueError(f"share must lie between 0 and 1, got {self.share}")

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The point found for each example."""
        aim, x, eps = Aim.of(self.loss, y, target), x.detach(), self.threat.eps
        noise = streams(rng, x).normal(x)
        start = self.threat.project(x + self.share * eps * self.threat.steepest(noise, x), x)
        _, grad, _ = input_gradient(aim.loss, model, start, aim.labels)
        return self.threat.project(start + (1 - self.share) * eps * self.threat.steepest(grad, start), x)
