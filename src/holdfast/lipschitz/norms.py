r"""Norms of linear maps: how much longer a layer can make a difference, in l1, l2 and linf.

.. math:: \|A\|_p = \max_{v \ne 0} \frac{\|A v\|_p}{\|v\|_p}

Everything is computed from the weights in float64, up to its rounding. For :math:`\ell_1` and :math:`\ell_\infty` the
norm is the largest column or row sum of absolute values, for :math:`\ell_2` the largest singular value.

Reference:
    Tsuzuku, Sato, Sugiyama, Lipschitz-Margin Training, NeurIPS 2018, arXiv:1802.04034 (pooling, sums, concatenation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from holdfast.lipschitz.radii import Norm
from holdfast.rng import Streams

Pair = tuple[int, int]
"""For height and width, or before and after."""

ORDER: dict[Norm, float] = {"l1": 1, "l2": 2, "linf": math.inf}
""":math:`p` of each norm."""

TOLERANCE = 1e-7
"""Power iteration stops when a step raises its estimate by less than this share."""


@dataclass(frozen=True, kw_only=True)
class OperatorNorm:
    """What is known of a norm.

    Args:
        upper: never below the norm.
        exact: whether `upper` is the norm itself.
        estimate: never above the norm: `upper` where that is exact, else what power iteration reached; None if it was
            not asked for.
    """

    upper: float
    exact: bool = True
    estimate: float | None = None


def exactly(value: float) -> OperatorNorm:
    """What is known of a norm that has a formula."""
    return OperatorNorm(upper=value, exact=True, estimate=value)


class LinearMap(Protocol):
    """A linear layer, biases left out."""

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
        return exactly(float(double(self.scale).abs().amax()))


@dataclass(frozen=True, eq=False)
class Dense:
    """A matrix on the last dimension.

    Args:
        weight: (outputs, inputs).
    """

    weight: Tensor

    def norm(self, norm: Norm, *, steps: int = 0) -> OperatorNorm:
        """Largest column sum, singular value or row sum."""
        weight = double(self.weight)
        if norm == "l2":
            return exactly(float(largest_singular_values(weight)))
        return exactly(float(torch.linalg.matrix_norm(weight, ORDER[norm])))


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
        copies = (1 + -(-sum(around) // side) for side, around in zip(self.size, self.margins, strict=True))
        return exactly(repeated(math.prod(copies), norm))


def double(weight: Tensor) -> Tensor:
    """Detached and in float64; Apple's GPUs have none, so their weights go to the CPU."""
    weight = weight.detach()
    return (weight.cpu() if weight.device.type == "mps" else weight).to(torch.float64)


def largest_singular_values(matrices: Tensor) -> Tensor:
    """The largest singular value of each matrix, from the smaller of its two squares, which is several times faster."""
    wide = matrices.shape[-2] <= matrices.shape[-1]
    square = matrices @ matrices.mH if wide else matrices.mH @ matrices
    largest: Tensor = torch.linalg.eigvalsh(square)[..., -1]
    return largest.clamp(min=0).sqrt()


def repeated(copies: int, norm: Norm) -> float:
    r"""How much longer a vector becomes when each value stands there so often: :math:`m^{1/p}`."""
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
        shape: of its input, with a batch of one.
        like: dtype and device.
        steps: at most so many.
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
