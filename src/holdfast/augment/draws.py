"""Random weights of mixtures, one row per stream."""

from __future__ import annotations

import torch
from scipy import special
from torch import Tensor

from holdfast.rng import Streams


def gamma(rng: Streams, shape: float, count: int) -> Tensor:
    """Gamma variables of a shape and scale 1, (N, count), float64 on the CPU, by the inverse distribution function."""
    level = rng.uniform(torch.empty(len(rng), count, dtype=torch.float64))
    if shape == 1:
        return -torch.log1p(-level)
    return torch.as_tensor(special.gammaincinv(shape, level.numpy()))


def dirichlet(rng: Streams, alpha: float, count: int) -> Tensor:
    r"""Weights that sum to 1, :math:`g_i / \sum_j g_j` with :math:`g_i \sim \Gamma(\alpha)`; (N, count), float64."""
    drawn = gamma(rng, alpha, count).clamp_min_(1e-300)
    return drawn / drawn.sum(1, keepdim=True)


def beta(rng: Streams, a: float, b: float) -> Tensor:
    r""":math:`g_a / (g_a + g_b)` with gamma variables of these shapes, (N,), float64."""
    one, other = gamma(rng, a, 1)[:, 0].clamp_min_(1e-300), gamma(rng, b, 1)[:, 0]
    return one / (one + other)
