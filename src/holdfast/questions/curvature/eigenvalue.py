r"""The largest eigenvalue of each example's input Hessian, by a Lanczos iteration of all examples at once.

.. math:: H q_j = \beta_{j-1} q_{j-1} + \alpha_j q_j + \beta_j q_{j+1}, \qquad
          T = \mathrm{tridiag}(\beta, \alpha, \beta), \quad T s = \theta s, \quad v = \sum_j s_j q_j

with the :math:`\theta` of largest magnitude. What is told is the Rayleigh quotient :math:`\lambda = v^\top H v` of the
unit vector :math:`v` and the residual :math:`\|H v - \lambda v\|`, from one more product. Some eigenvalue of a
symmetric :math:`H` lies within the residual of :math:`\lambda`; that it is the largest is likely for a random start,
not proved.

Reference:
    Golub, Van Loan, Matrix Computations, 4th edition, chapter 10. Parlett, The Symmetric Eigenvalue Problem, 1980,
    theorem 4.5.1 (the residual).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.gradients import Expansion
from holdfast.rng import Streams


@dataclass(frozen=True)
class Eigenvalue:
    r"""The eigenvalue of largest magnitude of each example, float64, (N,).

    Args:
        value: :math:`\lambda`, with its sign.
        residual: :math:`\|H v - \lambda v\|`.
    """

    value: Tensor
    residual: Tensor


def largest_eigenvalue(around: Expansion, *, steps: int = 10, rng: Streams) -> Eigenvalue:
    """The largest eigenvalue of the input Hessian of each example; costs `steps` + 1 products.

    Vectors have the length of a normal one when they are multiplied, so that finite differences measure at the same
    distance as those of `input_curvature`.

    Args:
        around: the loss, expanded at the images.
        steps: of the iteration, at least 1; vectors that are held for each example.
        rng: random streams of the images.
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    like = around.gradient
    length = math.sqrt(like[:1].numel())

    def product(unit: Tensor) -> Tensor:
        return around.product((length * unit).view_as(like)).flatten(1) / length

    vector = lanczos(product, _unit(rng.split("lanczos").normal(like).flatten(1)), steps)
    turned, vector = product(vector).double(), vector.double()
    value = (turned * vector).sum(1)
    return Eigenvalue(value, torch.linalg.vector_norm(turned - value[:, None] * vector, dim=1))


def lanczos(product: Callable[[Tensor], Tensor], start: Tensor, steps: int) -> Tensor:
    """Unit vectors that are nearest to eigenvectors of the largest magnitude in each example's Krylov space, (N, D).

    Args:
        product: each example's symmetric matrix times its vector, (N, D) to (N, D).
        start: unit vectors, (N, D).
        steps: dimension of the space.
    """
    basis, tridiagonal = start[None], start.new_zeros(len(start), steps, steps)
    for step in range(steps):
        turned = product(basis[step])
        overlap = torch.einsum("knd,nd->kn", basis, turned)
        tridiagonal[:, step, step] = overlap[step]
        # Against all vectors, and twice: in floating point once leaves the more of them the smaller the rest is.
        rest = turned - torch.einsum("kn,knd->nd", overlap, basis)
        rest = rest - torch.einsum("kn,knd->nd", torch.einsum("knd,nd->kn", basis, rest), basis)
        if step + 1 < steps:
            size = torch.linalg.vector_norm(rest, dim=1)
            # Nothing but rounding is left where the space is invariant; the basis goes on with zeros there.
            size = torch.where(size > _rounding(turned), size, 0)
            tridiagonal[:, step, step + 1] = tridiagonal[:, step + 1, step] = size
            basis = torch.cat((basis, torch.where(size[:, None] > 0, _unit(rest), 0)[None]))
    values, vectors = torch.linalg.eigh(tridiagonal)
    chosen = vectors.gather(2, values.abs().argmax(1).view(-1, 1, 1).expand(-1, steps, 1))[..., 0]
    combined: Tensor = torch.einsum("nk,knd->nd", chosen, basis)
    return _unit(combined)


def _rounding(vector: Tensor) -> Tensor:
    size: Tensor = torch.linalg.vector_norm(vector, dim=1)
    return 100 * torch.finfo(vector.dtype).eps * size


def _unit(vector: Tensor) -> Tensor:
    """The vector at length 1; zero stays zero."""
    size: Tensor = torch.linalg.vector_norm(vector, dim=1, keepdim=True)
    return vector / size.clamp_min(torch.finfo(vector.dtype).tiny)
