"""The Frobenius norm of the input-logit Jacobian as a penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.losses import cross_entropy
from holdfast.objectives.arguments import require_positive
from holdfast.objectives.passes import Passes
from holdfast.objectives.penalty import gradient_of
from holdfast.rng import Streams, streams
from holdfast.types import Classifier, Terms


@dataclass(frozen=True, kw_only=True)
class Jacobian:
    r"""Cross entropy, and the squared Frobenius norm of the Jacobian of the logits, by random projections.

    .. math:: \mathrm{CE}(x) + \frac{w}{2} \frac1N \sum_i \|J(x_i)\|_F^2, \qquad
        \|J\|_F^2 = E\, \frac{K}{n} \sum_{j=1}^n \|v_j^\top J\|_2^2

    for :math:`n` random orthonormal directions :math:`v_j` of the :math:`K` logits, each uniform on the sphere. As many
    as there are classes give the norm itself, without error.

    Args:
        weight: :math:`w`, for images in [0, 1].
        projections: :math:`n`; one backward pass each.

    Reference:
        Hoffman, Roberts, Yaida, Robust Learning with Jacobian Regularization, 2019, arXiv:1908.02729, section 2 and
        algorithm 1. Differs: several directions are orthogonal, which has less variance than independent ones.
    """

    weight: float = 0.01
    projections: int = 1

    soft_labels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(weight=self.weight)
        if self.projections < 1:
            raise ValueError(f"projections must be at least 1, got {self.projections}")

    @property
    def passes(self) -> Passes:
        """Passes of one step: the projections and the weights."""
        return Passes(1, self.projections + 1)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch."""
        with torch.enable_grad():
            points = x.detach().requires_grad_()
            logits = model(points)
            directions = orthonormal(self.projections, logits, streams(rng, x).split("projections"))
            rows = [gradient_of((logits * directions[:, j]).sum(), points) for j in range(self.projections)]
        squares = torch.stack([row.flatten(1).square().sum(1) for row in rows]).mean(0)
        penalty = logits.shape[1] * squares.mean()
        loss = cross_entropy(logits, y).mean()
        return Terms(loss + self.weight / 2 * penalty, {"loss": loss, "jacobian": penalty})


def orthonormal(count: int, logits: Tensor, rng: Streams) -> Tensor:
    """Random orthonormal vectors of each example's logits, uniform (Haar), (N, count, K).

    The QR decomposition of a normal matrix is unique, and its Q uniform, if the diagonal of R is positive. LAPACK's is
    not: its first vector always points to one side. Where BatchNorm mixes the examples of a batch, products of their
    directions would then have a mean that is not 0.

    Raises:
        ModelError: if there are fewer classes than that.
    """
    classes = logits.shape[1]
    if count > classes:
        raise ModelError(f"jacobian: expected no more projections than classes, {classes}; got {count}")
    normal = rng.normal(torch.empty(len(logits), classes, count, dtype=torch.float64, device=logits.device))
    basis, triangle = torch.linalg.qr(normal)
    signs = torch.where(triangle.diagonal(dim1=1, dim2=2) < 0, -1.0, 1.0).to(basis)
    directions: Tensor = (basis * signs[:, None]).transpose(1, 2)
    return directions.to(logits.dtype)
