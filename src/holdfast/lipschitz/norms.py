r"""Norms of linear maps: how much longer a layer can make a difference, in l1, l2 and linf.

.. math:: \|A\|_p = \max_{v \ne 0} \frac{\|A v\|_p}{\|v\|_p}

Everything is computed from the weights in float64, and its rounding is bounded (`OperatorNorm.rounding`). For
:math:`\ell_1` and :math:`\ell_\infty` the norm is the largest column or row sum of absolute values, for :math:`\ell_2`
the largest singular value.

Reference:
    Tsuzuku, Sato, Sugiyama, Lipschitz-Margin Training, NeurIPS 2018, arXiv:1802.04034 (pooling, sums, concatenation).
    Rump, Verification of Positive Definiteness, BIT Numerical Mathematics 46, 2006 (singular values from above).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from holdfast.lipschitz.radii import Norm
from holdfast.lipschitz.rounding import ELEMENTARY, double, gamma, outward
from holdfast.rng import Streams

Pair = tuple[int, int]
"""For height and width, or before and after."""

ORDER: dict[Norm, float] = {"l1": 1, "l2": 2, "linf": math.inf}
""":math:`p` of each norm."""

TOLERANCE = 1e-7
"""Power iteration stops when a step raises its estimate by less than this share."""


@dataclass(frozen=True, kw_only=True)
class OperatorNorm:
    """Bounds of a norm.

    Args:
        upper: never below the norm, up to rounding.
        estimate: never above the norm: `upper` where that is exact, otherwise the result of power iteration; None if it
            was not requested.
        rounding: how much the norm may lie above `upper` because float64 rounds.
    """

    upper: float
    estimate: float | None = None
    rounding: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether `upper` is the norm itself."""
        return self.estimate == self.upper

    @property
    def certain(self) -> float:
        """Never below the norm in exact arithmetic."""
        return outward(self.upper + self.rounding)

    def __mul__(self, factor: float) -> OperatorNorm:
        return OperatorNorm(upper=factor * self.upper, rounding=outward(factor * self.rounding))


def exactly(value: float, rounding: float = 0.0) -> OperatorNorm:
    """Bounds of a norm that has a formula."""
    return OperatorNorm(upper=value, estimate=value, rounding=rounding)


class Sums(NamedTuple):
    """Bounds of the largest column sum and the largest row sum of absolute values of a matrix."""

    l1: float
    linf: float

    def of(self, norm: Norm) -> float:
        r"""A bound of the norm of the absolute values: :math:`\|A\|_2^2 \le \|A\|_1 \|A\|_\infty` (Riesz-Thorin)."""
        return {"l1": self.l1, "l2": math.sqrt(self.l1) * math.sqrt(self.linf), "linf": self.linf}[norm]

    def after(self, first: Sums, factor: float = 1.0) -> Sums:
        """Bounds for a product of two matrices, this one applied after the other."""
        return Sums(factor * self.l1 * first.l1, factor * self.linf * first.linf)

    def plus(self, other: Sums) -> Sums:
        """Bounds for a sum of two matrices."""
        return Sums(self.l1 + other.l1, self.linf + other.linf)


NO_SUMS = Sums(0.0, 0.0)
"""Bounds for a zero matrix."""


class LinearMap(Protocol):
    """A linear layer, biases left out."""

    @property
    def terms(self) -> int:
        """Roundings that one output goes through: products of its sum, and a few."""
        ...

    def absolute(self) -> Sums:
        """Sums of absolute values, for the rounding of what the layer computes."""
        ...

    def norm(self, norm: Norm, *, steps: int = 0) -> OperatorNorm:
        """Its induced norm; `steps` iterations of the power method where the exact norm has no formula."""
        ...


@dataclass(frozen=True, eq=False)
class Diagonal:
    """Each value times a constant.

    Args:
        scale: the constants, with as many dimensions as an example.
    """

    scale: Tensor

    def norm(self, norm: Norm, *, steps: int = 0) -> OperatorNorm:
        """The largest constant, in every norm."""
        return exactly(self._largest())

    @property
    def terms(self) -> int:
        """The roundings of a factor and a shift."""
        return ELEMENTARY

    def absolute(self) -> Sums:
        """The largest constant."""
        return Sums(self._largest(), self._largest())

    def _largest(self) -> float:
        return float(double(self.scale).abs().amax())


@dataclass(frozen=True, eq=False)
class Dense:
    """A matrix on the last dimension.

    Args:
        weight: (outputs, inputs).
    """

    weight: Tensor

    def norm(self, norm: Norm, *, steps: int = 0) -> OperatorNorm:
        """Largest column sum, singular value or row sum."""
        if norm == "l2":
            value, upper = largest_singular_values(double(self.weight))
            return exactly(float(value), float(upper - value))
        largest = self.absolute().of(norm)
        return exactly(largest, gamma(self.weight.numel()) * largest)

    @property
    def terms(self) -> int:
        """A product for each input."""
        return self.weight.shape[1] + ELEMENTARY

    def absolute(self) -> Sums:
        """Largest column and row sum."""
        weight = double(self.weight)
        return Sums(*(float(torch.linalg.matrix_norm(weight, p)) for p in (1, math.inf)))


@dataclass(frozen=True)
class CircularPadding:
    """Margins that continue an image from its other side; a convolution after it may be a cyclic one.

    Args:
        size: height and width of the image.
        margins: before and after, for height and width.
    """

    size: Pair
    margins: tuple[Pair, Pair]

    def norm(self, norm: Norm, *, steps: int = 0) -> OperatorNorm:
        r""":math:`m`, :math:`\sqrt m` or 1 for values that appear at most :math:`m` times."""
        return exactly(repeated(self._copies(), norm))

    @property
    def terms(self) -> int:
        """Nothing is rounded."""
        return 0

    def absolute(self) -> Sums:
        """Copies of a value, and one value in each place."""
        return Sums(self._copies(), 1.0)

    def _copies(self) -> int:
        return math.prod(1 + -(-sum(around) // side) for side, around in zip(self.size, self.margins, strict=True))


def largest_singular_values(matrices: Tensor) -> tuple[Tensor, Tensor]:
    r"""The largest singular value of each matrix as float64 computes it, and a bound that it does not exceed.

    The value comes from the smaller of the two squares :math:`G = A A^*`, which is several times faster. The bound does
    not rely on it: if the Cholesky factorisation of :math:`\lambda I - G` runs to its end in floating point, then
    :math:`G \preceq \lambda I + \Delta` with :math:`\|\Delta\| \le \gamma_{n+3}\, n \lambda`, and the computed
    :math:`G` is off by at most :math:`\gamma_m \|A\|_F^2`. Complex products count four times.
    """
    wide = matrices.shape[-2] <= matrices.shape[-1]
    square = matrices @ matrices.mH if wide else matrices.mH @ matrices
    size, length = min(matrices.shape[-2:]), max(matrices.shape[-2:])
    largest: Tensor = torch.linalg.eigvalsh(square)[..., -1].clamp(min=0)
    trace = square.diagonal(dim1=-2, dim2=-1).real.sum(-1)
    level = (1 + gamma(8 * size * (size + 8))) * largest + torch.finfo(torch.float64).tiny
    shifted = -square
    shifted.diagonal(dim1=-2, dim2=-1).add_(level[..., None])
    proved = torch.linalg.cholesky_ex(shifted).info == 0
    upper = torch.where(proved, (1 + gamma(8 * size * (size + 8))) * level, trace)
    upper = ((upper + gamma(4 * (length + 8)) * trace) * (1 + gamma(16))).sqrt() + TINY
    return largest.sqrt(), upper


TINY = 1e-150
"""More than the products that underflow in float64 may add to a norm."""


def repeated(copies: int, norm: Norm) -> float:
    r"""How much longer a vector becomes when each value is repeated: :math:`m^{1/p}`."""
    return float(copies ** (1 / ORDER[norm]))


def concatenated(bounds: Sequence[float], norm: Norm) -> float:
    """The bound of outputs side by side: the norm of the vector of their bounds."""
    return float(torch.linalg.vector_norm(torch.tensor(bounds, dtype=torch.float64), ORDER[norm]))


def non_negative_sums(apply: Callable[[Tensor], Tensor], ones: Tensor) -> dict[Norm, float]:
    """The largest column sum (l1) and row sum (linf) of a linear map without negative entries, from ones."""
    with torch.enable_grad():
        ones = ones.detach().requires_grad_()
        rows = apply(ones)
        (columns,) = torch.autograd.grad(rows.sum(), ones)
    return {"l1": float(columns.amax()), "linf": float(rows.detach().amax())}


def power_iteration(
    apply: Callable[[Tensor], Tensor], shape: Sequence[int], like: Tensor, *, steps: int, tolerance: float = TOLERANCE
) -> float:
    r"""The :math:`\ell_2` norm of a linear map from below: :math:`\|A v\|` for :math:`v \propto A^\top A\, v`.

    Args:
        apply: the map, differentiable.
        shape: shape of its input, with a batch of one.
        like: a tensor of the dtype and device to use.
        steps: maximum number of steps.
        tolerance: stops when a step raises the value by less than this share.
    """
    v = Streams(0, "power iteration", 1).normal(like.new_empty(tuple(shape)))
    reached = 0.0
    for _ in range(steps):
        with torch.enable_grad():
            v = (v / torch.linalg.vector_norm(v)).requires_grad_()
            half_square = apply(v).square().sum() / 2
            (v,) = torch.autograd.grad(half_square, v)
        before, reached = reached, max(reached, math.sqrt(2 * float(half_square.detach())))
        if reached <= before * (1 + tolerance):
            break
    return reached
