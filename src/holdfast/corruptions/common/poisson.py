r"""Poisson numbers with a rate of their own for every pixel, in a fixed number of operations per pixel.

The rate :math:`\lambda = c x` is split at the 8-bit level below, :math:`c \lfloor 255 x\rfloor / 255` and the rest. A
sum of independent Poisson numbers is Poisson, so each part is drawn by the method that suits it: the 256 levels by
Walker's alias method, in which a table turns one random number into an outcome with two look-ups, and the rest, which
is below :math:`c / 255` and 0 in 8-bit images, by inversion.

Reference:
    Walker, An Efficient Method for Generating Discrete Random Variables with General Distributions, ACM TOMS 1977.
    Vose, A Linear Algorithm for Generating Random Numbers with a Given Distribution, IEEE TSE 1991.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from scipy.special import gammaln
from torch import Tensor

from holdfast.corruptions.common.draws import words
from holdfast.rng import Streams

LEVELS = 256
_SAME = 1e-4
"""A value this near to an 8-bit level, in units of levels, counts as on it: the rounding of x * 255 in float32."""


def poisson(x: Tensor, count: float, rng: Streams) -> Tensor:
    """Poisson numbers of rate `count * x`, for x in [0, 1] with the batch first; dtype of x."""
    scaled = x * (LEVELS - 1)
    level = (scaled + _SAME).floor_()
    rest = (scaled - level).mul_(count / (LEVELS - 1))
    number = _of_levels(level.long(), count, rng).to(x)
    if bool((rest > _SAME * count / (LEVELS - 1)).any()):
        number += _of_small_rates(rest.clamp_(min=0), rng)
    return number


def _of_levels(level: Tensor, count: float, rng: Streams) -> Tensor:
    share, other = (part.to(level.device) for part in alias_table(count))
    outcomes = share.shape[1]
    # The word times the number of outcomes: above 2**32 the column, below it a number uniform within the column.
    product = words(rng, level).long().bitwise_and_(0xFFFFFFFF).mul_(outcomes)
    column = product >> 32
    fraction = product.bitwise_and_(0xFFFFFFFF).to(share.dtype).mul_(2.0**-32)
    place = level.mul_(outcomes).add_(column)
    return torch.where(fraction < share.take(place), column, other.take(place).long())


def _of_small_rates(rate: Tensor, rng: Streams) -> Tensor:
    uniform, probability = rng.uniform(rate), torch.exp(-rate)
    number, below = torch.zeros_like(rate), probability.clone()
    for outcome in range(1, 60):  # far beyond what a rate of 2 reaches; rounding may leave the sum short of 1
        above = uniform >= below
        if not bool(above.any()):
            break
        number += above
        probability = probability.mul_(rate).div_(outcome)
        below += probability
    return number


@lru_cache(maxsize=16)
def alias_table(count: float) -> tuple[Tensor, Tensor]:
    """Share of each column that is its own outcome, and the outcome of the rest; (256, outcomes) each."""
    outcomes = math.ceil(count + 12 * math.sqrt(count) + 20)  # what lies beyond has probability below 1e-20
    rate = np.arange(LEVELS)[:, None] * (count / (LEVELS - 1))
    number = np.arange(outcomes)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = np.where(number == 0, 0.0, number * np.log(rate)) - rate - gammaln(number + 1)
    probability = np.exp(logarithm)
    rows = [_alias(row / row.sum()) for row in probability]
    share, other = (np.stack(part) for part in zip(*rows, strict=True))
    return torch.from_numpy(share.astype(np.float32)), torch.from_numpy(other.astype(np.int16))


def _alias(probability: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vose's construction: every column that is too low is filled up from one that is too high."""
    share = (probability * len(probability)).tolist()
    other = list(range(len(share)))
    low = [column for column, height in enumerate(share) if height < 1]
    high = [column for column, height in enumerate(share) if height >= 1]
    while low and high:
        short, tall = low.pop(), high.pop()
        other[short] = tall
        share[tall] -= 1 - share[short]
        (low if share[tall] < 1 else high).append(tall)
    for column in low + high:  # full, but for rounding
        share[column] = 1.0
    return np.array(share), np.array(other)
