"""Random numbers of 32 bits, two from every hash of a stream: enough for pixels, at half the price."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.rng import Streams


def words(rng: Streams, like: Tensor) -> Tensor:
    """Uniform 32-bit integers, signed, in the shape of `like`, (N, ...)."""
    count = like[0].numel()
    bits = rng.bits((count + 1) // 2, like.device)
    return bits.view(torch.int32)[:, :count].reshape(like.shape)


def symmetric(rng: Streams, like: Tensor) -> Tensor:
    """Uniform in [-1, 1], shape, dtype and device of `like`."""
    return words(rng, like).to(like).mul_(2.0**-31)
