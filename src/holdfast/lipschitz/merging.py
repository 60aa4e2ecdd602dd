"""Linear layers in a row as one: its norm is at most the product of theirs."""

from __future__ import annotations

import dataclasses

from torch import Tensor

from holdfast.lipschitz.convolution_norms import Convolution
from holdfast.lipschitz.norms import CircularPadding, Dense, Diagonal, LinearMap


def merged(first: LinearMap, then: LinearMap) -> LinearMap | None:
    """Two layers as one, or None where that has no formula."""
    match first, then:
        case Diagonal(), Diagonal():
            return Diagonal(first.scale * then.scale)
        case Dense(), Dense():
            return Dense(then.weight @ first.weight)
        case Diagonal(), Dense() if _only_along(first.scale, -1):
            return Dense(then.weight * first.scale.flatten())
        case Dense(), Diagonal() if _only_along(then.scale, -1):
            return Dense(then.scale.flatten()[:, None] * first.weight)
        case Diagonal(), Convolution() if _only_along(first.scale, 0):
            outputs, inputs = then.weight.shape[0] // then.groups, then.weight.shape[1]
            scale = first.scale.flatten().expand(then.groups * inputs).view(then.groups, 1, inputs)
            columns = scale.expand(-1, outputs, -1).flatten(0, 1)[:, :, None, None]
            return dataclasses.replace(then, weight=then.weight * columns)
        case Convolution(), Diagonal() if _only_along(then.scale, 0):
            return dataclasses.replace(first, weight=first.weight * then.scale.flatten()[:, None, None, None])
        case CircularPadding(), Convolution() if not then.circular and then.margins == ((0, 0), (0, 0)):
            return dataclasses.replace(then, size=first.size, margins=first.margins, circular=True)
    return None


def _only_along(scale: Tensor, dim: int) -> bool:
    """Whether a scale varies along one dimension at most."""
    return scale.numel() == scale.shape[dim]
