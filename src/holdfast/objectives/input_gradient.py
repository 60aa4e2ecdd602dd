"""Double backpropagation: the size of the input gradient as a penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from holdfast.errors import unknown
from holdfast.losses import cross_entropy
from holdfast.objectives.arguments import require_positive
from holdfast.objectives.passes import Passes
from holdfast.objectives.penalty import slope
from holdfast.rng import Streams
from holdfast.types import Classifier, Terms

ORDERS = {"l1": 1.0, "l2": 2.0, "linf": math.inf}


@dataclass(frozen=True, kw_only=True)
class InputGradient:
    r"""Cross entropy, and the squared norm of its input gradient.

    .. math:: \mathrm{CE}(x) + w\, \frac1N \sum_i \|\nabla\ell(x_i)\|^2

    Args:
        weight: :math:`w`, for images in [0, 1].
        norm: norm of the gradient; the dual of the norm in which the adversary moves the images (`l1` for
            :math:`\ell_\infty`).

    Reference:
        Drucker, LeCun, Improving Generalization Performance Using Double Backpropagation, IEEE Transactions on Neural
        Networks 3(6), 1992. Ross, Doshi-Velez, Improving the Adversarial Robustness and Interpretability of Deep Neural
        Networks by Regularizing their Input Gradients, AAAI 2018, arXiv:1711.09404.
    """

    weight: float = 1.0
    norm: Literal["l1", "l2", "linf"] = "l2"

    soft_labels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(weight=self.weight)
        if self.norm not in ORDERS:
            raise ValueError(f"norm: {unknown(self.norm, ORDERS)}")

    @property
    def passes(self) -> Passes:
        """Passes of one step: the gradient and the weights."""
        return Passes(1, 2)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch; `rng` is not used."""
        here = slope(cross_entropy, model, x, y)
        loss = here.values.mean()
        penalty = torch.linalg.vector_norm(here.gradient.flatten(1), ORDERS[self.norm], dim=1).square().mean()
        return Terms(loss + self.weight * penalty, {"loss": loss, "gradient": penalty})
