"""Noise of every pixel on its own."""

from __future__ import annotations

from torch import Tensor

from holdfast.corruptions.common.draws import words
from holdfast.corruptions.common.poisson import poisson
from holdfast.corruptions.common.tables import Parameters
from holdfast.rng import Streams


def gaussian_noise(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    r""":math:`\mathrm{clip}(x + \sigma\xi)` with :math:`\xi \sim N(0, I)`; parameters: :math:`\sigma`."""
    (sigma,) = parameters
    return rng.normal(x).mul_(sigma).add_(x).clamp_(0, 1)


def shot_noise(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    r""":math:`\mathrm{clip}(k / c)`, :math:`k \sim \mathrm{Poisson}(c x)`; parameters: :math:`c`, photons of white."""
    (count,) = parameters
    return poisson(x, count, rng).div_(count).clamp_(max=1)


def impulse_noise(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    """Salt and pepper: each value becomes 0 or 1, with the same probability; parameters: share of values replaced."""
    (amount,) = parameters
    # A word lies below -2**31 + a * 2**32 with probability a: in the lower half of that range pepper, above it salt.
    word = words(rng, x)
    start, width = -(2**31), 2**32
    salted = x.masked_fill(word < round(start + amount * width), 1)
    return salted.masked_fill_(word < round(start + amount / 2 * width), 0)


def speckle_noise(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    r""":math:`\mathrm{clip}(x + \sigma x\xi)` with :math:`\xi \sim N(0, I)`; parameters: :math:`\sigma`."""
    (sigma,) = parameters
    return rng.normal(x).mul_(sigma).mul_(x).add_(x).clamp_(0, 1)
