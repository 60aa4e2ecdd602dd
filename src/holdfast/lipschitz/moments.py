r"""Mean and variance of every unit when the input has Gaussian noise: an alternative forward pass.

Units of a layer are assumed to be independent and Gaussian before an activation. Then with means :math:`\mu` and
variances :math:`v = s^2`

.. math::
    \text{linear: } W\mu + b,\ (W \odot W)\, v; \qquad
    \text{ReLU: } h = s\,\varphi(\mu/s) + \mu\,\Phi(\mu/s),\ s^2\,\Phi(\mu/s) - h (h - \mu).

Orthogonal weights keep independent inputs of equal variance uncorrelated, so that the first layer is exact; behind an
activation the correlations are small but not zero, and the moments are an approximation. Sorted pairs have the moments
of the larger and smaller of two independent Gaussians (Clark).

Reference:
    Crespo, Teramae, Smoothed Robustness Analysis, TMLR, appendices A.5 and C.2. Clark, The Greatest of a Finite Set of
    Random Variables, Operations Research 1961.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.errors import ModelError
from holdfast.lipschitz.activations import GroupSort
from holdfast.lipschitz.convolution import Downsampling, OrthogonalConvolution, wrap
from holdfast.lipschitz.dense import OrthogonalDense
from holdfast.types import Classifier
from holdfast.wrappers import network


class Moments(NamedTuple):
    """Mean and variance of each unit, both of the same shape."""

    mean: Tensor
    variance: Tensor


def propagate(model: Classifier, x: Tensor, sigma: float) -> Moments:
    r"""Moments of the logits at :math:`x + \sigma\xi`, :math:`\xi \sim N(0, I)`, differentiable.

    Args:
        model: dense and convolution layers, ReLU, MaxMin and downsampling, one after the other: one of our networks,
            whose own method `moments` is called, or an `nn.Sequential`.
        x: images, (N, ...).
        sigma: standard deviation of the noise.

    Raises:
        ModelError: for a layer whose moments are not known.
    """
    inner: Any = network(model)
    # The network's own method, not one that a wrapper passes on without its own part; Fabric's network is in `module`.
    if any(hasattr(type(owner), "moments") for owner in (inner, getattr(inner, "module", None))):
        return Moments(*inner.moments(x, sigma))
    if not isinstance(inner, nn.Module):
        raise ModelError(f"moments: expected a network of torch; got {type(inner).__name__}")
    return through([inner], Moments(x, torch.full_like(x, sigma**2)))


def through(modules: Iterable[nn.Module], given: Moments) -> Moments:
    """Moments after modules that run one after the other."""
    for module in modules:
        if isinstance(module, nn.Sequential):
            given = through(module, given)
            continue
        rule = next((rule for kind, rule in _RULES.items() if isinstance(module, kind)), None)
        if rule is None:
            supported = ", ".join(kind.__name__ for kind in _RULES)
            raise ModelError(f"moments: expected layers of {supported}; got {type(module).__name__}")
        given = rule(module, given)
    return given


def relu_moments(mean: Tensor, variance: Tensor) -> Moments:
    """Moments of the positive part of Gaussians; a variance of zero gives the positive part itself."""
    deviation = variance.clamp_min(torch.finfo(mean.dtype).tiny).sqrt()
    ratio = mean / deviation
    share, density = normal_cdf(ratio), normal_density(ratio)
    positive = deviation * density + mean * share
    lifted = deviation * density - mean * normal_cdf(-ratio)  # positive - mean, without the cancellation
    return Moments(positive, (variance * share - positive * lifted).clamp_min(0))


def larger_moments(one: Moments, other: Moments) -> Moments:
    """Moments of the larger of two independent Gaussians."""
    spread = (one.variance + other.variance).clamp_min(torch.finfo(one.mean.dtype).tiny).sqrt()
    gap = one.mean - other.mean
    share, density = normal_cdf(gap / spread), normal_density(gap / spread)
    mean = other.mean + gap * share + spread * density
    # Moments about the second mean: the squares of the means themselves would cancel.
    square = other.variance * (1 - share) + (gap**2 + one.variance) * share + gap * spread * density
    return Moments(mean, (square - (mean - other.mean) ** 2).clamp_min(0))


def normal_density(t: Tensor) -> Tensor:
    """Density of the standard normal distribution."""
    return torch.exp(-0.5 * t**2) / math.sqrt(2 * math.pi)


def normal_cdf(t: Tensor) -> Tensor:
    """Distribution function of the standard normal distribution."""
    share: Tensor = torch.special.ndtr(t)
    return share


def _dense(layer: Any, given: Moments) -> Moments:
    weight = layer.weight
    return Moments(F.linear(given.mean, weight, layer.bias), F.linear(given.variance, weight**2))


def _orthogonal_convolution(layer: OrthogonalConvolution, given: Moments) -> Moments:
    weight, (mean, variance) = layer.weight, (wrap(part, layer.kernel) for part in given)
    return Moments(F.conv2d(mean, weight, layer.bias), F.conv2d(variance, weight**2))


def _convolution(layer: nn.Conv2d, given: Moments) -> Moments:
    mean = layer(given.mean)
    variance = layer._conv_forward(given.variance, layer.weight**2, None)
    return Moments(mean, variance)


def _group_sort(layer: GroupSort, given: Moments) -> Moments:
    if layer.size != 2:
        raise ModelError(f"moments: expected groups of 2 to be sorted; got groups of {layer.size}")
    whole = given.mean.shape[1] // 2 * 2
    one, other = (Moments(*(part[:, start:whole:2] for part in given)) for start in (0, 1))
    larger = larger_moments(one, other)
    smaller = larger_moments(Moments(-one.mean, one.variance), Moments(-other.mean, other.variance))
    pairs = Moments(
        torch.stack((-smaller.mean, larger.mean), 2).flatten(1, 2),
        torch.stack((smaller.variance, larger.variance), 2).flatten(1, 2),
    )
    return Moments(*(torch.cat((pair, part[:, whole:]), 1) for pair, part in zip(pairs, given, strict=True)))


def _same_for_both(layer: nn.Module, given: Moments) -> Moments:
    return Moments(layer(given.mean), layer(given.variance))


_RULES: dict[type[nn.Module], Callable[[Any, Moments], Moments]] = {
    OrthogonalDense: _dense,
    nn.Linear: _dense,
    OrthogonalConvolution: _orthogonal_convolution,
    nn.Conv2d: _convolution,
    nn.ReLU: lambda layer, given: relu_moments(*given),
    GroupSort: _group_sort,
    Downsampling: _same_for_both,
    nn.PixelUnshuffle: _same_for_both,
    nn.CircularPad2d: _same_for_both,
    nn.ZeroPad2d: _same_for_both,
    nn.Flatten: _same_for_both,
    nn.Identity: lambda layer, given: given,
}
