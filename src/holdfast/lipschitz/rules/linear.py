r"""Layers with weights, constant factors and sums: :math:`\|A\|_p K` and :math:`K_1 + K_2`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.lipschitz.convolution_norms import Convolution
from holdfast.lipschitz.norms import Dense, Diagonal, double, repeated
from holdfast.lipschitz.rules.moves import padded
from holdfast.lipschitz.rules.options import margins, pair
from holdfast.lipschitz.site import Site, Value


def dense(site: Site, value: Value, weight: Tensor, bias: Tensor | None = None) -> Value:
    """A matrix on the last dimension."""
    if value.tensor.dim() < 2:
        raise site.refuse("mixes examples of a batch")
    return site.linear(value, Dense(double(weight)))


def product(site: Site, value: Value, weight: Tensor) -> Value:
    """A matrix or vector from the right."""
    if weight.dim() > 2:
        raise site.refuse("only products with one constant matrix have a rule")
    return dense(site, value, weight.mT if weight.dim() == 2 else weight[None])


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
    """A convolution of images, with zeros in its margins."""
    if value.tensor.dim() != 4:
        raise site.refuse(f"expected images (N, C, H, W), got shape {tuple(value.tensor.shape)}")
    kernel, (height, width) = pair(weight.shape[2:]), value.tensor.shape[2:]
    layer = Convolution(
        weight=double(weight),
        size=(height, width),
        margins=margins(padding, kernel, pair(dilation)),
        stride=pair(stride),
        dilation=pair(dilation),
        groups=groups,
    )
    return site.linear(value, layer)


def convolution_layer(module: nn.Conv2d, site: Site, value: Value) -> Value:
    """A convolution after the padding of its own that torch's layer may have."""
    padding: str | int | Sequence[int] = module.padding
    mode = module.padding_mode
    if mode != "zeros":
        (top, bottom), (left, right) = margins(padding, pair(module.kernel_size), pair(module.dilation))
        padding, pad = 0, (left, right, top, bottom)
        wider = F.pad(value.tensor, pad, mode=mode)
        value = padded(dataclasses.replace(site, kind=f"{mode} padding", output=wider), value, pad, mode)
    return convolution(site, value, module.weight, None, module.stride, padding, module.dilation, module.groups)


def batch_norm(
    site: Site,
    value: Value,
    running_mean: Tensor | None,
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
    return _scaled(site, value, scale.view(-1, *[1] * (value.tensor.dim() - 2)))


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


def _scaled(site: Site, value: Value, scale: Tensor) -> Value:
    """Each example times a scale, which has as many dimensions as an example."""
    return site.same(value) if bool((scale == 1).all()) else site.linear(value, Diagonal(scale))


def _factor(site: Site, value: Value, factor: Any) -> Tensor:
    """A constant factor as a float64 tensor with as many dimensions as an example."""
    scale = double(torch.as_tensor(factor, device=value.tensor.device))
    missing = value.tensor.dim() - scale.dim()
    if site.output.shape != value.tensor.shape or (missing == 0 and len(scale) != 1):
        raise site.refuse("multiplies with a constant that is larger than an example")
    return scale[0] if missing == 0 else scale[(None,) * (missing - 1)]


def plus(site: Site, a: Any, b: Any) -> Value:
    """A sum or a difference; a constant shifts and changes no bound."""
    values = [each for each in (a, b) if isinstance(each, Value)]
    if len(values) == 1 and values[0].tensor.shape == site.output.shape:
        return site.same(values[0])
    bounds = [_spread(site, value) for value in values]
    return site.joined(bounds, sum(bounds))


def _spread(site: Site, value: Value) -> float:
    """The bound of a value that is broadcast to the output."""
    shape = site.output.shape
    if len(shape) != value.tensor.dim() or shape[0] != len(value.tensor):
        raise site.refuse(f"broadcasts {tuple(value.tensor.shape)} to {tuple(shape)}, across the examples")
    return site.tally.settle(value) * repeated(shape.numel() // value.tensor.numel(), site.norm)
