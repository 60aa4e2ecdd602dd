"""The basic iterative method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from holdfast.attacks.pgd import PGD
from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.traits import Access
from holdfast.types import Classifier, Loss, Threat


@dataclass(frozen=True, kw_only=True)
class BIM:
    r"""Projected gradient descent from `x` itself; nothing is random.

    .. math:: z_0 = x, \qquad z_{t+1} = \Pi_{S(x)}\bigl(z_t + \alpha\, s(\nabla_z \ell(f(z_t), y))\bigr)

    Args:
        threat: the set :math:`S` and its geometry.
        steps: gradient evaluations per example.
        step_size: :math:`\alpha`, in the threat's units; None means :math:`2.5\,\epsilon / \text{steps}`.
        loss: per-example loss to climb.

    Reference:
        Kurakin, Goodfellow, Bengio, Adversarial Examples in the Physical World, 2017, arXiv:1607.02533, section 2.2
        (there :math:`\alpha = 1/255`). Differs: keeps the best point, and an example that is lost leaves.
    """

    access: ClassVar = Access.GRADIENTS

    threat: Threat
    steps: int = 10
    step_size: float | None = None
    loss: Loss = cross_entropy

    def __post_init__(self) -> None:
        self._pgd()

    def _pgd(self) -> PGD:
        return PGD(threat=self.threat, steps=self.steps, step_size=self.step_size, loss=self.loss, random_start=False)

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The best point found for each example; `rng` is not used."""
        return self._pgd()(model, x, y, target=target, rng=rng)
