"""Several corruptions, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from holdfast.rng import Streams, streams
from holdfast.types import Corruption


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Corruptions applied in order, each with randomness of its own.

    Args:
        of: the corruptions in their order, for instance noise and then patches that stay black.
    """

    of: tuple[Corruption, ...]

    def __post_init__(self) -> None:
        if not self.of:
            raise ValueError("of: expected at least one corruption, got none")

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """Images after all of them."""
        rng = streams(rng, x)
        for place, corruption in enumerate(self.of):
            x = corruption(x, rng=rng.split(f"{place}"))
        return x
