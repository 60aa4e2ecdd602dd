r"""Values that are moved, left out, copied, put side by side or kept: :math:`m^{1/p}` for :math:`m` copies of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.lipschitz.norms import CircularPadding, Diagonal, concatenated, repeated
from holdfast.lipschitz.tally import Site
from holdfast.lipschitz.values import Step, Value


def moved(site: Site, value: Value, *args: Any, **kwargs: Any) -> Any:
    """Values moved, left out or copied; moving their numbers shows where each goes."""
    numbers = torch.arange(1, value.tensor.numel() + 1, dtype=torch.float64, device=value.tensor.device)
    numbers = numbers.view(value.tensor.shape)
    origins = site.call(numbers, *args, **kwargs)
    constants = site.call(torch.zeros_like(numbers), *args, **kwargs)  # the values of a padding
    if isinstance(origins, Tensor):
        return _placed(site, value, origins - constants)
    parts = zip(site.output, origins, constants, strict=True)
    return tuple(
        _placed(dataclasses.replace(site, output=output), value, origin - constant)
        for output, origin, constant in parts
    )


def _placed(site: Site, value: Value, origins: Tensor) -> Value:
    """The output of a move, given the number of the value that comes to each place; 0 for a constant."""
    examples, size = len(value.tensor), value.tensor[0].numel()
    if not origins.dim() or len(origins) != examples:
        raise site.refuse("the first dimension is no longer that of the examples")
    sources = [each.long() - 1 for each in origins]
    inside = [each[each >= 0] for each in sources]
    if any((each // size != i).any() for i, each in enumerate(inside)):
        raise site.refuse("mixes examples of a batch")
    most = int(inside[0].bincount().max()) if len(inside[0]) else 1
    stays = torch.arange(size, device=origins.device).view(value.tensor.shape[1:])
    if torch.equal(sources[0], stays):
        return site.same(value)  # a view of the same values
    match value.pending:
        case (Step(map=Diagonal(scale=scale)) as step,) if most == 1:  # each value takes its factor along
            factors = scale.expand(value.tensor.shape[1:]).flatten()[sources[0]]
            output = value.shown(site.output)
            output.pending, output.pairs = (dataclasses.replace(step, map=Diagonal(factors)),), None
            return output
    return site.times(value, repeated(most, site.norm))


def padded(site: Site, source: Value, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """Margins around images; circular ones may make the next convolution a cyclic one."""
    if mode == "circular" and source.tensor.dim() == len(pad) == 4 and min(pad) >= 0:
        left, right, top, bottom = pad
        height, width = source.tensor.shape[2:]
        return site.linear(source, CircularPadding((height, width), ((top, bottom), (left, right))))
    return moved(dataclasses.replace(site, call=lambda z: F.pad(z, pad, mode=mode)), source)


def side_by_side(site: Site, tensors: Sequence[Any], dim: int = 0) -> Value:
    """A concatenation along any dimension but that of the examples: the norm of the vector of the bounds."""
    if dim % site.output.dim() == 0:
        raise site.refuse("the first dimension is no longer that of the examples")
    parts = [(each, 1.0) for each in tensors if isinstance(each, Value)]
    return site.joined(parts, lambda bounds: concatenated(bounds, site.norm))


def kept(site: Site, value: Value) -> Value:
    """The value itself, or its opposite, whose layers have the same norms."""
    return site.same(value)


def cast(site: Site, source: Any, *args: Any, **kwargs: Any) -> Any:
    """Another device or precision, perhaps that of another value; a constant stays one."""
    return site.same(source, *_ROUNDED.get(site.output.dtype, ())) if isinstance(source, Value) else site.output


_ROUNDED = {torch.float32: (1 << 29,)}
"""A rounding to float32 counts as that many of float64."""


def like(site: Site, source: Any, other: Any) -> Any:
    """The shape of another value, whose numbers do not matter."""
    if not isinstance(source, Value):
        return site.output
    shape = other.tensor if isinstance(other, Value) else other
    return moved(dataclasses.replace(site, call=lambda z: getattr(z, site.kind)(shape)), source)


def dropped(site: Site, value: Value, p: float = 0.5, training: bool = True, inplace: bool = False) -> Value:
    """Dropout, which does nothing in evaluation mode."""
    if training and p:
        raise site.refuse("is random in evaluation mode too")
    return site.same(value)


def described(site: Site, *args: Any, **kwargs: Any) -> Any:
    """Sizes, types and tensors of constants, which do not depend on the values of the input."""
    return site.output


def attribute(site: Site, value: Value, name: str) -> Any:
    """Sizes, types and tensors of constants as attributes."""
    if name not in ("shape", "ndim", "dtype", "device"):
        raise site.refuse(f"no rule is known for the attribute '{name}'")
    return site.output
