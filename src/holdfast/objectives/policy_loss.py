"""The loss of a policy's choice between two classifiers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.objectives.arguments import require_nonnegative


@dataclass(frozen=True, kw_only=True)
class PolicyLoss:
    r"""The composite loss of one image (eq. 9).

    .. math:: (\mathrm{CE} + c_1)\,\bigl(c_2 + (c_3 - s\,\beta)_+\bigr)

    with :math:`s = +1` where the robust classifier should answer (:math:`\alpha^* = \infty`) and :math:`s = -1` where
    the accurate one should (:math:`\alpha^* = 0`).

    Args:
        c1: cost of a wrong choice that remains when the answer is right.
        c2: cost of a wrong answer that remains when the choice is right.
        c3: how far beyond 0 the choice must be to count as made.
    """

    c1: float = 0.5
    c2: float = 0.8
    c3: float = 3.2

    def __post_init__(self) -> None:
        require_nonnegative(c1=self.c1, c2=self.c2, c3=self.c3)

    def __call__(self, loss: Tensor, beta: Tensor, robust: Tensor) -> Tensor:
        """Loss of each image, (N,).

        Args:
            loss: cross entropy of the composite, (N,).
            beta: the logarithm of the strength that the policy chose, (N,).
            robust: whether the robust classifier should answer, (N,).
        """
        side = torch.where(robust, 1.0, -1.0).to(beta)
        return (loss + self.c1) * (self.c2 + (self.c3 - side * beta).clamp(min=0))
