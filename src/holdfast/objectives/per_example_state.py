"""Places of training examples in the per-example state of an objective."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.errors import DataError


def places_of(who: str, examples: Tensor, indices: Tensor) -> Tensor:
    """Places of examples among the training examples, (N,).

    Args:
        who: name of the objective, for the message.
        examples: indices of the training examples, rising, (n,).
        indices: indices of the examples to place, (N,).

    Raises:
        DataError: for an example that is none of the training examples.
    """
    indices = indices.to(examples.device)
    places = torch.searchsorted(examples, indices).clamp(max=len(examples) - 1)
    strange = indices[examples[places] != indices]
    if len(strange):
        raise DataError(f"{who}: expected training examples; example {int(strange[0])} is not one of them")
    return places
