"""Where an objective keeps what it remembers of each training example."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.errors import DataError


def places_of(who: str, examples: Tensor, indices: Tensor) -> Tensor:
    """Places of examples among the training examples, (N,).

    Args:
        who: asks, for the message.
        examples: indices of the training examples, rising, (n,).
        indices: of those looked for, (N,).

    Raises:
        DataError: for an example that is none of them.
    """
    indices = indices.to(examples.device)
    places = torch.searchsorted(examples, indices).clamp(max=len(examples) - 1)
    strange = indices[examples[places] != indices]
    if len(strange):
        raise DataError(f"{who}: expected training examples; example {int(strange[0])} is not one of them")
    return places
