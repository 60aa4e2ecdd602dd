r"""The orthogonal matrix nearest to a given one, by Björck's iteration, and its derivative.

For a matrix with at most as many rows as columns, :math:`A = H U` with :math:`H` symmetric positive and
:math:`U U^\top = I`; :math:`U` is the polar factor, the nearest matrix with orthonormal rows. Of any matrix, the
shorter side becomes orthonormal. Since :math:`U = (A A^\top)^{-1/2} A`, Björck's iteration takes the first terms of the
series of the root in :math:`E = A A^\top - I`,

.. math:: A_{k+1} = \bigl(I - \tfrac12 E\bigr) A_k \qquad\text{or}\qquad
          A_{k+1} = \bigl(I - \tfrac12 E + \tfrac38 E^2\bigr) A_k .

The second converges from singular values in :math:`(0, \sqrt{7/3})`. With :math:`e = \lVert E\rVert`, one step leaves
an error of at most :math:`\tfrac34 e^2 + \tfrac14 e^3` or :math:`\tfrac58 e^3 + \tfrac{15}{64} e^4 + \tfrac9{64} e^5`,
so that the number of steps is the smallest that reaches the tolerance each time, instead of one number for a whole
training; the last step has the second term only if it needs it.

Reference:
    Björck, Bowie, An Iterative Algorithm for Computing the Best Estimate of an Orthogonal Matrix, SIAM J. Numer. Anal.
    1971. Anil, Lucas, Grosse, Sorting Out Lipschitz Function Approximation, ICML 2019, arXiv:1811.05381.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.lipschitz.rounding import double

LIMIT = 40
"""Steps after which small singular values count as zero: 40 steps lift them from 1e-10."""


def bjorck(a: Tensor) -> Tensor:
    """One step of first order, (..., m, n)."""
    return a - 0.5 * _excess(a) @ a if _is_wide(a) else bjorck(a.mT).mT


@torch.no_grad()
def orthogonalise(a: Tensor) -> Tensor:
    """The polar factor of each matrix, (..., m, n); all its singular values are 1 up to a few units of rounding."""
    if not _is_wide(a):
        return orthogonalise(a.mT).mT.contiguous()
    error, unit = _excess(a), torch.finfo(a.dtype).eps
    tolerance, size = 8 * unit, _size(error)
    if size <= 4 * unit * a.shape[-2] ** 0.5:
        return a.clone()  # as orthogonal as rounding allows; so the factor of a factor is itself, to the bit
    if size >= 1 and not _is_near(error):
        a = a / _norm_bound(a)
        error = _excess(a)
    for _ in range(LIMIT):
        size = _size(error)
        if first_is_enough := 0.75 * size**2 + 0.25 * size**3 <= tolerance:
            change = error.mul_(-0.5)
        else:
            change = torch.baddbmm(_batched(error), _batched(error), _batched(error), beta=-0.5, alpha=0.375)
        a = torch.baddbmm(_batched(a), _batched(change), _batched(a)).view(a.shape)
        if first_is_enough or 0.625 * size**3 + 0.234375 * size**4 + 0.140625 * size**5 <= tolerance:
            return a
        error = _excess(a)
    if not bool(a.isfinite().all()):
        raise ModelError("orthogonal layer: expected finite weights; got others")
    # In float64, whose factors are orthogonal far beyond float32; of a singular value of zero any unit will do.
    u, _, v = torch.linalg.svd(double(a), full_matrices=False)
    nearest: Tensor = u @ v
    return nearest.to(a)


def unrolled(a: Tensor, steps: int = 30) -> Tensor:
    """The polar factor by a fixed number of plain steps, for function transforms that allow nothing else."""
    a = a / _norm_bound(a)
    for _ in range(steps):
        a = bjorck(a)
    return a


class Polar(torch.autograd.Function):
    r"""The polar factor as a function of the matrix, with its exact derivative.

    The gradient :math:`G` of the factor gives

    .. math:: X U + H^{-1} G (I - U^\top U), \qquad H X + X H = G U^\top - U G^\top,

    which is the projection :math:`G - \tfrac12(G U^\top + U G^\top) U` on the tangent space where :math:`A = U`.
    The arguments are the matrix, its factor (computed elsewhere, once per change of the matrix), and whether they are
    equal.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, factor: Tensor, equal: bool) -> Tensor:
        """The factor."""
        result = factor.view_as(factor)
        ctx.save_for_backward(a, result)
        ctx.equal = equal
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Gradient of the matrix."""
        a, u = ctx.saved_tensors
        (g,) = grads
        if _is_wide(a):
            return _pull_back(a, u, g, ctx.equal), None, None
        return _pull_back(a.mT, u.mT, g.mT, ctx.equal).mT, None, None


def _pull_back(a: Tensor, u: Tensor, g: Tensor, equal: bool) -> Tensor:
    turned = g @ u.mT
    if equal and not torch.is_grad_enabled():
        return torch.baddbmm(_batched(g), _batched(turned + turned.mT), _batched(u), alpha=-0.5).view(g.shape)
    stretch = a @ u.mT  # H, symmetric up to rounding
    identity = torch.eye(stretch.shape[-1], dtype=a.dtype, device=a.device)
    off, skew, rest = stretch - identity, turned - turned.mT, g - turned @ u
    if float(off.detach().norm()) < 1e-3:
        # First order in H - I. Eigenvectors of a matrix that is nearly I have no derivative, and this has.
        return (0.5 * skew - 0.25 * (off @ skew + skew @ off)) @ u + rest - off @ rest
    values, vectors = torch.linalg.eigh(0.5 * (stretch + stretch.mT))
    inner = vectors.mT @ skew @ vectors / (values[..., :, None] + values[..., None, :])
    pulled: Tensor = vectors @ inner @ vectors.mT @ u + torch.linalg.solve(stretch, rest)
    return pulled


def _excess(a: Tensor) -> Tensor:
    """A A' - I."""
    gram = a @ a.mT
    gram.diagonal(dim1=-2, dim2=-1).sub_(1)
    return gram


def _size(error: Tensor) -> float:
    """The largest Frobenius norm of the matrices."""
    return float(torch.linalg.matrix_norm(error).max())


def _is_near(error: Tensor) -> bool:
    """Whether singular values are well below the root of 3, by power iteration on A A' - I."""
    vector = torch.linspace(1, 2, error.shape[-1], dtype=error.dtype, device=error.device).cos_()[:, None]
    for _ in range(8):
        vector = error @ (vector / torch.linalg.vector_norm(vector, dim=(-2, -1), keepdim=True))
    return bool(torch.linalg.vector_norm(vector, dim=(-2, -1)).max() < 1)


def _norm_bound(a: Tensor) -> Tensor:
    """No singular value is above the root of the largest sums of absolute values over rows and over columns."""
    rows, columns = a.abs().sum(-1).amax(-1), a.abs().sum(-2).amax(-1)
    return (rows * columns).sqrt().clamp_min(torch.finfo(a.dtype).tiny)[..., None, None]


def _batched(a: Tensor) -> Tensor:
    return a.reshape(-1, *a.shape[-2:])


def _is_wide(a: Tensor) -> bool:
    return a.shape[-2] <= a.shape[-1]
