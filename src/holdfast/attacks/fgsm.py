"""The fast gradient method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from holdfast.attacks.search import Aim, require_box
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.traits import Access
from holdfast.types import Classifier, Loss, Threat


@dataclass(frozen=True, kw_only=True)
class FGSM:
    r"""One step to where the linearised loss is largest.

    .. math:: z = \arg\max_{z \in S(x)} \langle \nabla_x \ell(f(x), y), z \rangle

    For :math:`\ell_\infty` this is the sign step. For the other norms the box is taken into account exactly, so that on
    a linear model the result is the optimum of every threat set.

    Args:
        threat: the set :math:`S` and its geometry.
        loss: per-example loss to climb.

    Reference:
        Goodfellow, Shlens, Szegedy, Explaining and Harnessing Adversarial Examples, ICLR 2015, arXiv:1412.6572.
    """

    access: ClassVar = Access.GRADIENTS
    persistent: ClassVar = True
    thorough: ClassVar = False

    threat: Threat
    loss: Loss = cross_entropy

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The point found for each example; `rng` is not used."""
        x, aim = require_box(x), Aim.of(self.loss, y, target)
        _, grad, _ = input_gradient(aim.loss, model, x, aim.labels)
        return self.threat.extreme(grad, x)
