r"""Norms of convolutions of images of a known size.

In :math:`\ell_1` and :math:`\ell_\infty` one pass of :math:`|A|` gives them for any stride, border or group. In
:math:`\ell_2` the norm of a cyclic convolution is the largest of those of its symbols. A convolution with zeros at the
border is a part of a cyclic one on a larger torus, which gives an upper bound; its true norm is approached from below
by power iteration.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.lipschitz.norms import (
    OperatorNorm,
    Pair,
    Sums,
    exactly,
    largest_singular_values,
    non_negative_sums,
    power_iteration,
)
from holdfast.lipschitz.radii import Norm
from holdfast.lipschitz.rounding import ELEMENTARY, double, gamma
from holdfast.lipschitz.symbols import symbol_norm

EXPLICIT = 1024
"""Rows and columns up to which the matrix of a convolution is written out for its exact norm."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Convolution:
    """A convolution of images of a known size.

    Args:
        weight: (outputs, inputs / groups, kernel height, kernel width).
        size: height and width of the input, margins not included.
        margins: added before and after, for height and width.
        stride: for height and width.
        dilation: for height and width.
        groups: number of groups of channels that do not mix.
        circular: whether the margins continue the image from its other side; else they are zeros.
    """

    weight: Tensor
    size: Pair
    margins: tuple[Pair, Pair] = ((0, 0), (0, 0))
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    groups: int = 1
    circular: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs of (N, inputs, H, W), without bias."""
        (top, bottom), (left, right) = self.margins
        mode = "circular" if self.circular else "constant"
        wider = F.pad(x, (left, right, top, bottom), mode=mode)
        return F.conv2d(wider, self.weight, stride=self.stride, dilation=self.dilation, groups=self.groups)

    def norm(self, norm: Norm, *, steps: int = 0) -> OperatorNorm:
        """Exact in l1 and linf unless a cyclic kernel meets itself; in l2 exact or bounded, see `convolution_norm`."""
        layer = dataclasses.replace(self, weight=double(self.weight))
        if norm == "l2":
            return convolution_norm(layer, steps=steps)
        upper = absolute_sums(layer)[norm]
        rounding = gamma(self.weight.numel()) * upper
        if _meets_itself(layer):
            return OperatorNorm(upper=upper, rounding=rounding)
        return exactly(upper, rounding)

    @property
    def terms(self) -> int:
        """A product for each tap and input."""
        return self.weight[0].numel() + ELEMENTARY

    def absolute(self) -> Sums:
        """Largest column and row sum, with its margins."""
        return Sums(**absolute_sums(dataclasses.replace(self, weight=double(self.weight))))


DUAL: dict[Norm, Norm] = {"l1": "linf", "l2": "l2", "linf": "l1"}
r""":math:`\|A^\top\|_p = \|A\|_q`."""


@dataclass(frozen=True, eq=False)
class Transposed:
    """The transpose of a convolution, from its outputs to its inputs.

    Args:
        layer: the convolution.
    """

    layer: Convolution

    def norm(self, norm: Norm, *, steps: int = 0) -> OperatorNorm:
        """The norm of the convolution in the dual norm."""
        return self.layer.norm(DUAL[norm], steps=steps)

    @property
    def terms(self) -> int:
        """A product for each tap and input, some of which are zeros."""
        return self.layer.weight[:, 0].numel() + ELEMENTARY

    def absolute(self) -> Sums:
        """Sums of the convolution, rows and columns exchanged."""
        columns, rows = self.layer.absolute()
        return Sums(rows, columns)


def convolution_norm(layer: Convolution, *, steps: int = 0, explicit: int = EXPLICIT) -> OperatorNorm:
    r"""The :math:`\ell_2` norm of a convolution with float64 weights.

    It is exact if the convolution is cyclic and its stride divides the image, if its windows do not overlap and there
    are no margins, or if its matrix is small. Otherwise it is the smallest of certain bounds: the norm of a cyclic
    convolution of which it is a part, and :math:`\sqrt{\|A\|_1 \|A\|_\infty}` (Riesz-Thorin).

    Args:
        layer: the convolution.
        steps: of power iteration, for the estimate of what is not exact; 0 for none.
        explicit: largest number of rows and of columns of a matrix that is written out.
    """
    if not (_is_cyclic(layer) or _windows_apart(layer)):
        if max(math.prod(_input_shape(layer)), len(layer.weight) * math.prod(_output_size(layer))) <= explicit:
            value, upper = largest_singular_values(_matrix(layer))
            met = gamma(layer.terms) * _by_sums(layer).certain  # taps that meet on a torus are added
            return exactly(float(value), float(upper - value) + met)
        least = min(*_cyclic_bounds(layer), _by_sums(layer), key=lambda bound: bound.certain)
        reached = power_iteration(layer, _input_shape(layer), layer.weight, steps=steps) if steps else None
        return dataclasses.replace(least, estimate=reached)
    least = min(_cyclic_bounds(layer), key=lambda bound: bound.certain)
    return exactly(least.upper, least.rounding)


def _by_sums(layer: Convolution) -> OperatorNorm:
    """Bound of the norm by Riesz-Thorin."""
    upper = Sums(**absolute_sums(layer)).of("l2")
    return OperatorNorm(upper=upper, rounding=gamma(layer.weight.numel() + ELEMENTARY) * upper)


def absolute_sums(layer: Convolution) -> dict[Norm, float]:
    """The largest column sum (l1) and row sum (linf) of the absolute values of a convolution's matrix."""
    absolute = dataclasses.replace(layer, weight=layer.weight.abs())
    return non_negative_sums(absolute, layer.weight.new_ones(_input_shape(layer)))


def _matrix(layer: Convolution) -> Tensor:
    """The matrix of a convolution, (inputs, outputs): its outputs for unit vectors."""
    shape = _input_shape(layer)
    units = torch.eye(math.prod(shape), dtype=layer.weight.dtype, device=layer.weight.device)
    return layer(units.view(-1, *shape[1:])).flatten(1)


def _cyclic_bounds(layer: Convolution) -> Iterator[OperatorNorm]:
    """Upper bounds by cyclic convolutions of which the layer is a part."""
    if not layer.circular:
        yield _embedded(layer)
        return
    outputs, size, stride = _output_size(layer), layer.size, layer.stride
    if all(s * (n - 1) < side for n, side, s in zip(outputs, size, stride, strict=True)):
        # Where the stride does not divide the image, the outputs are some of those of stride 1.
        height, width = (s if side % s == 0 else 1 for side, s in zip(size, stride, strict=True))
        yield symbol_norm(layer.weight, size, stride=(height, width), dilation=layer.dilation, groups=layer.groups)
    if not _is_cyclic(layer):
        padded = _padded_size(layer)
        copies = math.prod(-(-whole // side) for whole, side in zip(padded, size, strict=True))
        inside = dataclasses.replace(layer, size=padded, margins=((0, 0), (0, 0)), circular=False)
        yield _embedded(inside) * math.sqrt(copies)


def _embedded(layer: Convolution) -> OperatorNorm:
    """The norm on the smallest torus where no window with zeros in its margins reaches the image's other side.

    Input and output are cut out of the torus, which makes no norm larger.
    """
    sides = []
    for side, margins, extent, stride in zip(layer.size, layer.margins, _extents(layer), layer.stride, strict=True):
        smallest = side + max(*margins, sum(margins) - extent)
        sides.append(-(-smallest // stride) * stride)
    return symbol_norm(
        layer.weight, (sides[0], sides[1]), stride=layer.stride, dilation=layer.dilation, groups=layer.groups
    )


def _is_cyclic(layer: Convolution) -> bool:
    """Whether the outputs are all those of a cyclic convolution, each once."""
    sizes = zip(_output_size(layer), layer.stride, layer.size, strict=True)
    return layer.circular and all(outputs * stride == side for outputs, stride, side in sizes)


def _windows_apart(layer: Convolution) -> bool:
    """Whether no two windows share a value and all lie inside the image."""
    apart = all(extent < stride for extent, stride in zip(_extents(layer), layer.stride, strict=True))
    return apart and layer.margins == ((0, 0), (0, 0))


def _meets_itself(layer: Convolution) -> bool:
    """Whether two taps of a cyclic kernel see the same value, so that their absolute values may not be added."""
    return layer.circular and any(extent >= side for extent, side in zip(_extents(layer), layer.size, strict=True))


def _extents(layer: Convolution) -> Pair:
    """Distance between the first and the last tap, for height and width."""
    height, width = layer.weight.shape[2:]
    return (height - 1) * layer.dilation[0], (width - 1) * layer.dilation[1]


def _padded_size(layer: Convolution) -> Pair:
    (top, bottom), (left, right) = layer.margins
    return layer.size[0] + top + bottom, layer.size[1] + left + right


def _output_size(layer: Convolution) -> Pair:
    sizes = zip(_padded_size(layer), _extents(layer), layer.stride, strict=True)
    height, width = ((side - extent - 1) // stride + 1 for side, extent, stride in sizes)
    return height, width


def _input_shape(layer: Convolution) -> tuple[int, int, int, int]:
    return 1, layer.weight.shape[1] * layer.groups, *layer.size
