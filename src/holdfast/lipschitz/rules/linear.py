r"""Layers with weights, constant factors and sums: :math:`\|A\|_p K` and :math:`K_1 + K_2`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.lipschitz.convolution_norms import Convolution, Transposed
from holdfast.lipschitz.norms import ORDER, Dense, Diagonal, Pair, repeated
from holdfast.lipschitz.rounding import ELEMENTARY, double, gamma, outward
from holdfast.lipschitz.rules.moves import padded
from holdfast.lipschitz.rules.options import margins, pair, spread
from holdfast.lipschitz.tally import Site
from holdfast.lipschitz.values import Pairs, Value


def dense(site: Site, value: Value, weight: Tensor, bias: Tensor | None = None) -> Value:
    """A matrix on the last dimension."""
    if value.tensor.dim() < 2:
        raise site.refuse("mixes examples of a batch")
    return site.linear(value, Dense(double(weight)))


def product(site: Site, left: Any, right: Any) -> Value:
    """A matrix or vector from the right, on the last dimension, or from the left, on the last but one."""
    weight, value = (right, left) if isinstance(left, Value) else (left, right)
    if isinstance(weight, Value):
        raise site.refuse("depends on the input in more than one way")
    if weight.dim() > 2:
        raise site.refuse("only products with one constant matrix have a rule")
    if value is left:
        return dense(site, value, weight.mT if weight.dim() == 2 else weight[None])
    if value.tensor.dim() < 3:
        raise site.refuse("mixes examples of a batch")
    layer = Dense(double(weight if weight.dim() == 2 else weight[None]))
    return site.times(value, layer.norm(site.norm).certain, layer.terms * _flattening(layer, site))


def _flattening(layer: Dense, site: Site) -> int:
    """How many times larger sums of absolute values are than the norm, for the rounding."""
    norm = layer.norm(site.norm).certain
    return math.ceil(layer.absolute().of(site.norm) / norm) if norm else 1


def convolution(
    site: Site,
    value: Value,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Value:
    """A convolution of images or of series, with zeros in its margins."""
    size = _sides(site, value, weight)
    layer = _convolution(weight, size, stride, padding, dilation, groups)
    return site.linear(value, layer)


def transposed_convolution(
    site: Site,
    value: Value,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Value:
    """The transpose of the convolution that takes the output's size to the input's."""
    _sides(site, value, weight)
    size = (1, *site.output.shape[2:])[-2:]
    return site.linear(value, Transposed(_convolution(weight, size, stride, padding, dilation, groups)))


def transposed_layer(module: nn.ConvTranspose1d | nn.ConvTranspose2d, site: Site, value: Value) -> Value:
    """A transposed convolution, whose margins can only be zeros in torch."""
    options = (module.stride, module.padding, module.output_padding, module.groups, module.dilation)
    return transposed_convolution(site, value, module.weight, None, *options)  # type: ignore[arg-type]


def _sides(site: Site, value: Value, weight: Tensor) -> Pair:
    """Height and width; a series has a height of 1."""
    if value.tensor.dim() != weight.dim():
        wanted = "images (N, C, H, W)" if weight.dim() == 4 else "series (N, C, L)"
        raise site.refuse(f"expected {wanted}, got shape {tuple(value.tensor.shape)}")
    height, width = (1, *value.tensor.shape[2:])[-2:]
    return height, width


def _convolution(
    weight: Tensor,
    size: Pair,
    stride: int | Sequence[int],
    padding: str | int | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
) -> Convolution:
    """A convolution of images, or of series as images of height 1."""
    kernels, (height, width) = double(weight), size
    around, steps, apart = margins(padding, pair(weight.shape[2:]), pair(dilation)), pair(stride), pair(dilation)
    if weight.dim() == 3:
        kernels, around, steps, apart = kernels[:, :, None], ((0, 0), around[1]), (1, steps[1]), (1, apart[1])
    return Convolution(
        weight=kernels, size=(height, width), margins=around, stride=steps, dilation=apart, groups=groups
    )


def convolution_layer(module: nn.Conv1d | nn.Conv2d, site: Site, value: Value) -> Value:
    """A convolution after the padding that torch's layer may have."""
    padding: str | int | Sequence[int] = module.padding
    mode = module.padding_mode
    if mode != "zeros":
        (top, bottom), (left, right) = margins(padding, pair(module.kernel_size), pair(module.dilation))
        padding, pad = 0, (left, right, top, bottom)[: 2 * (value.tensor.dim() - 2)]
        wider = F.pad(value.tensor, pad, mode=mode)
        value = padded(dataclasses.replace(site, kind=f"{mode} padding", output=wider), value, pad, mode)
    return convolution(site, value, module.weight, None, module.stride, padding, module.dilation, module.groups)


def batch_norm(
    site: Site,
    value: Value,
    running_mean: Tensor,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
) -> Value:
    """BatchNorm in evaluation mode: a factor for each channel."""
    if training or running_var is None:
        raise site.refuse("normalises with the statistics of the batch, so that examples depend on each other")
    scale = (double(running_var) + eps).rsqrt() * (1 if weight is None else double(weight))
    parts = [scale * double(running_mean), *([] if bias is None else [double(bias)])]
    offset = sum(float(torch.linalg.vector_norm(part, ORDER[site.norm])) for part in parts)
    places = value.tensor[0].numel() // len(scale)
    shape = (-1, *[1] * (value.tensor.dim() - 2))
    return _scaled(site, value, scale.view(shape), offset * repeated(places, site.norm))


def times(site: Site, a: Any, b: Any) -> Value:
    """A product with a constant."""
    value, factor = (a, b) if isinstance(a, Value) else (b, a)
    if isinstance(factor, Value):
        raise site.refuse("a product of two values that depend on the input has no bound")
    return _scaled(site, value, _factor(site, value, factor))


def over(site: Site, value: Any, divisor: Any) -> Value:
    """A quotient by a constant."""
    if isinstance(divisor, Value):
        raise site.refuse("a quotient by a value that depends on the input has no bound")
    return _scaled(site, value, 1 / _factor(site, value, divisor))


def _scaled(site: Site, value: Value, scale: Tensor, offset: float = 0.0) -> Value:
    """Each example times a scale, which has as many dimensions as an example, and a constant of that length.

    The scale is rounded up, so that the exact one is at most as large.
    """
    if bool((scale == 1).all()):
        return site.same(value, ELEMENTARY, offset)
    return site.linear(value, Diagonal(scale * (1 + gamma(ELEMENTARY))), offset)


def _factor(site: Site, value: Value, factor: Any) -> Tensor:
    """A constant factor as a float64 tensor with as many dimensions as an example."""
    kind = None if isinstance(factor, Tensor) else torch.float64  # a number of Python is not rounded to float32
    scale = double(torch.as_tensor(factor, dtype=kind, device=value.tensor.device))
    missing = value.tensor.dim() - scale.dim()
    if site.output.shape != value.tensor.shape or (missing == 0 and len(scale) != 1):
        raise site.refuse("multiplies with a constant that is larger than an example")
    return scale[0] if missing == 0 else scale[(None,) * (missing - 1)]


def plus(site: Site, a: Any, b: Any, alpha: float = 1.0) -> Value:
    """A sum or a difference, of the second value `alpha` times; a constant shifts and changes no bound."""
    parts = [(each, factor) for each, factor in ((a, 1.0), (b, abs(alpha))) if isinstance(each, Value)]
    if len(parts) == 1 and parts[0][1] == 1 and parts[0][0].tensor.shape == site.output.shape:
        return site.same(parts[0][0], ELEMENTARY)
    longer = [(value, factor * spread(site, value)) for value, factor in parts]
    return site.joined(longer, sum, _summed(site, parts))


def _summed(site: Site, parts: list[tuple[Value, float]]) -> Pairs | None:
    """Bounds of the differences of every two sums of logits."""
    if any(value.tensor.shape != site.output.shape for value, _ in parts) or site.output.dim() != 2:
        return None
    pairs = [(site.tally.differences(value), factor) for value, factor in parts]
    return lambda: outward(1.0, ELEMENTARY) * sum((each() * factor for each, factor in pairs), torch.zeros(()))
