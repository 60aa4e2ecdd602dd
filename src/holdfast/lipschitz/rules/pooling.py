"""Means and maxima of windows, and of whole dimensions."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from holdfast.lipschitz.convolution_norms import Convolution
from holdfast.lipschitz.norms import non_negative_sums, repeated
from holdfast.lipschitz.rules.options import margins, pair
from holdfast.lipschitz.site import Site, Value


def averaged(site: Site, value: Value, *args: Any, **kwargs: Any) -> Value:
    """A linear map without negative entries, such as a mean; in l2 by Riesz-Thorin, exact for windows of one size."""
    ones = torch.ones_like(value.tensor, dtype=torch.float64)
    only_first = torch.cat((ones[:1], torch.zeros_like(ones[1:])))
    outputs = site.call(only_first, *args, **kwargs)
    if not outputs.dim() or len(outputs) != len(ones) or outputs[1:].any():
        raise site.refuse("mixes examples of a batch")
    sums = non_negative_sums(lambda z: site.call(z, *args, **kwargs), ones)
    return site.times(value, {**sums, "l2": math.sqrt(sums["l1"] * sums["linf"])}[site.norm])


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
    layer = Convolution(  # channels do not see each other, so one is enough
        weight=value.tensor.new_ones((1, 1, *kernel), dtype=torch.float64) / (divisor_override or math.prod(kernel)),
        size=(height, width),
        margins=margins(around, kernel, (1, 1)),
        stride=pair(stride or kernel),
    )
    return site.times(value, layer.norm(site.norm).upper)


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
    r"""A maximum is :math:`1`-Lipschitz in :math:`\ell_\infty`, so a value counts once for each window that sees it."""
    if return_indices or value.tensor.dim() != 4:
        raise site.refuse("only maxima of (N, C, H, W) without their indices have a rule")
    kernel, around, apart = pair(kernel_size), pair(padding), pair(dilation)
    steps, sizes, outputs = pair(stride or kernel), value.tensor.shape[2:], site.output.shape[2:]
    shared = (
        windows_sharing(n, m, kernel=k, stride=s, padding=p, dilation=d)
        for n, m, k, s, p, d in zip(sizes, outputs, kernel, steps, around, apart, strict=True)
    )
    return site.times(value, repeated(math.prod(shared), site.norm))


def adaptive_max_pooled(site: Site, value: Value, output_size: Any, return_indices: bool = False) -> Value:
    """Maxima of windows that do not overlap."""
    sizes = zip(value.tensor.shape[2:], site.output.shape[2:], strict=True) if not return_indices else ()
    if return_indices or any(size % outputs for size, outputs in sizes):
        raise site.refuse("only windows of one size, without their indices, have a rule")
    return site.times(value, 1.0)


def largest(site: Site, value: Value, dim: int | Sequence[int] = (), keepdim: bool = False) -> Value:
    """The largest or smallest value along dimensions."""
    dims = [dim] if isinstance(dim, int) else list(dim)
    if not dims or any(each % value.tensor.dim() == 0 for each in dims):
        raise site.refuse("mixes examples of a batch")
    return site.times(value, 1.0)


def windows_sharing(size: int, outputs: int, *, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    """How many windows of a pooling layer share the value that most of them share, along one direction."""
    shared = [0] * size
    for window, tap in itertools.product(range(outputs), range(kernel)):
        place = window * stride - padding + tap * dilation
        if 0 <= place < size:
            shared[place] += 1
    return max(shared)
