"""Random mirror images."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.rng import Streams, streams


@dataclass(frozen=True, kw_only=True)
class HorizontalFlip:
    """Exchange left and right of each image with some probability.

    Args:
        probability: of a flip.
    """

    probability: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability: expected a number in [0, 1], got {self.probability}")

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """The images, some of them mirrored, (N, C, H, W) as `x`."""
        flipped = streams(rng, x).uniform(x.new_empty(len(x))) < self.probability
        return torch.where(flipped[:, None, None, None], x.flip(-1), x)
