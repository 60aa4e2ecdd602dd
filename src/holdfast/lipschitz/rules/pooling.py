"""Means and maxima of windows and of whole dimensions, and images of another size."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.lipschitz.convolution_norms import Convolution
from holdfast.lipschitz.norms import Dense, Sums, non_negative_sums, repeated
from holdfast.lipschitz.rounding import ELEMENTARY, outward
from holdfast.lipschitz.rules.activations import larger
from holdfast.lipschitz.rules.options import margins, pair
from holdfast.lipschitz.tally import Site
from holdfast.lipschitz.values import Value


def averaged(site: Site, value: Value, *args: Any, **kwargs: Any) -> Value:
    """A linear map without negative entries, such as a mean; in l2 by Riesz-Thorin, exact for windows of one size."""
    ones = torch.ones_like(value.tensor, dtype=torch.float64)
    only_first = torch.cat((ones[:1], torch.zeros_like(ones[1:])))
    outputs = site.call(only_first, *args, **kwargs)
    if not outputs.dim() or len(outputs) != len(ones) or outputs[1:].any():
        raise site.refuse("mixes examples of a batch")
    sums = Sums(**non_negative_sums(lambda z: site.call(z, *args, **kwargs), ones))
    terms = ones[0].numel() + ELEMENTARY
    return site.times(value, outward(sums.of(site.norm), terms), terms)


def average_pooled(
    site: Site,
    value: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    """Means of windows: a convolution, if all windows divide by the same number."""
    kernel, around = pair(kernel_size), pair(padding)
    if value.tensor.dim() != 4 or ceil_mode or (around != (0, 0) and not count_include_pad):
        options = (kernel, pair(stride or kernel), around, ceil_mode, count_include_pad, divisor_override)
        return averaged(dataclasses.replace(site, call=lambda z: F.avg_pool2d(z, *options)), value)
    height, width = value.tensor.shape[2:]
    layer = Convolution(  # channels do not mix, so one is enough
        weight=value.tensor.new_ones((1, 1, *kernel), dtype=torch.float64) / (divisor_override or math.prod(kernel)),
        size=(height, width),
        margins=margins(around, kernel, (1, 1)),
        stride=pair(stride or kernel),
    )
    return site.times(value, layer.norm(site.norm).certain, layer.terms)


def max_pooled(
    site: Site,
    value: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Value:
    r"""A maximum is :math:`1`-Lipschitz in :math:`\ell_\infty`, so a value counts once for each window with it.

    Height and width are the last two dimensions, or the length the last one; dimensions before them do not mix.
    """
    if return_indices:
        raise site.refuse("only maxima without their indices have a rule")
    directions = 1 if site.kind.lower() in ("max_pool1d", "maxpool1d") else 2
    kernel, around, apart, steps = map(pair, (kernel_size, padding, dilation, stride or kernel_size))
    sizes, outputs = value.tensor.shape[-directions:], site.output.shape[-directions:]
    shared = (
        windows_sharing(n, m, kernel=k, stride=s, padding=p, dilation=d)
        for n, m, k, s, p, d in zip(sizes, outputs, kernel, steps, around, apart, strict=False)
    )
    return site.times(value, repeated(math.prod(shared), site.norm))


def adaptive_max_pooled(site: Site, value: Value, output_size: Any, return_indices: bool = False) -> Value:
    """Maxima of windows from one share of the image to the next, which overlap where the shares are not whole."""
    if return_indices:
        raise site.refuse("only maxima without their indices have a rule")
    directions = 1 if "1d" in site.kind.lower() else 2
    sizes = zip(value.tensor.shape[-directions:], site.output.shape[-directions:], strict=True)
    shared = (_most(size, (range(i * size // n, -(-(i + 1) * size // n)) for i in range(n))) for size, n in sizes)
    return site.times(value, repeated(math.prod(shared), site.norm))


def extreme(site: Site, value: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """`max` and `min`: of two values, or along a dimension, with indices that must not be used."""
    if isinstance(dim, Value | Tensor) or not isinstance(value, Value):
        return larger(site, value, dim)
    if not isinstance(dim, int):
        raise site.refuse("mixes examples of a batch")
    values, indices = site.output
    return Extreme(largest(dataclasses.replace(site, output=values), value, dim), Value(indices, math.inf))


class Extreme(NamedTuple):
    """The result of `max` along a dimension."""

    values: Value
    indices: Value


def largest(site: Site, value: Value, dim: int | Sequence[int] = (), keepdim: bool = False) -> Value:
    """The largest or smallest value along dimensions."""
    dims = [dim] if isinstance(dim, int) else list(dim)
    if not dims or any(each % value.tensor.dim() == 0 for each in dims):
        raise site.refuse("mixes examples of a batch")
    return site.times(value, 1.0)


def interpolated(site: Site, value: Value, *args: Any, **kwargs: Any) -> Value:
    """Images of another size, made by a matrix along each direction: the product of the norms of these.

    The matrix of a direction follows from images that are constant along the others, which every mode keeps constant.
    """
    sides = value.tensor.shape[2:]
    factor = 1.0
    for direction, side in enumerate(sides):
        lines = torch.eye(side, dtype=torch.float64, device=value.tensor.device)
        units = lines.view(side, 1, *(side if d == direction else 1 for d in range(len(sides)))).expand(-1, 1, *sides)
        outputs = site.call(units.contiguous(), *args, **kwargs)[:, 0].movedim(1 + direction, 1)
        factor *= Dense(outputs.reshape(*outputs.shape[:2], -1)[..., 0].mT).norm(site.norm).certain
    return site.times(value, factor, ELEMENTARY * (max(sides) + ELEMENTARY))


def windows_sharing(size: int, outputs: int, *, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Largest number of windows of a pooling layer that share a value, along one direction."""
    starts = (window * stride - padding for window in range(outputs))
    return _most(size, (range(start, start + kernel * dilation, dilation) for start in starts))


def _most(size: int, windows: Iterable[range]) -> int:
    """Largest number of windows that share a value."""
    shared = [0] * size
    for place in itertools.chain.from_iterable(windows):
        if 0 <= place < size:
            shared[place] += 1
    return max(shared)
