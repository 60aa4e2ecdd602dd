"""Values of a forward pass that depend on the input, with linear layers whose norms are pending."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from holdfast.errors import ModelError
from holdfast.lipschitz.norms import NO_SUMS, LinearMap, Sums
from holdfast.lipschitz.rounding import EXACT, Rounding, gamma


@dataclass(frozen=True)
class Step:
    """A linear layer whose norm is not yet computed.

    Args:
        name: path of the layer; several if they count as one.
        kind: its class or operation.
        map: the layer.
        slack: sums of absolute values of what rounding may have changed in the map, where it was made of several.
    """

    name: str
    kind: str
    map: LinearMap
    slack: Sums = NO_SUMS

    def after(self, first: Step, one: LinearMap) -> Step:
        """Both steps as one, whose map was computed by sums of products."""
        mine, others = self.map.absolute(), first.map.absolute()
        slack = mine.after(others, gamma(max(self.map.terms, first.map.terms)))
        slack = slack.plus(mine.after(first.slack)).plus(self.slack.after(others)).plus(self.slack.after(first.slack))
        return Step(_both(first.name, self.name), _both(first.kind, self.kind), one, slack)


Pairs = Callable[[], Tensor]
"""Bounds of how much the difference of every two outputs can change per unit of distance, (K, K), when called."""


class Value:
    """A value that depends on the input: the tensor itself, and the bound of what the pending layers are applied to.

    Args:
        tensor: the value for some images, the last of which is zero.
        bound: how much longer a difference can be than that of the input, before the pending layers.
        pending: linear layers whose norms are not yet computed.
        rounding: how far the value may be from that of exact arithmetic, before the pending layers.
        fresh: rounding that the pending layers add.
        gain: how much longer the pending layers make a difference, by a bound that costs little and may be large.
        pairs: bounds of the differences of every two outputs before the pending layers; None where only `bound` is
            known.
    """

    def __init__(
        self,
        tensor: Tensor,
        bound: float,
        pending: tuple[Step, ...] = (),
        *,
        rounding: Rounding = EXACT,
        fresh: Rounding = EXACT,
        gain: float = 1.0,
        pairs: Pairs | None = None,
    ) -> None:
        self.tensor, self.bound, self.pending = tensor, bound, pending
        self.rounding, self.fresh, self.gain, self.pairs = rounding, fresh, gain, pairs
        self._version = tensor._version

    def read(self) -> Tensor:
        """The tensor; an error if it was written to in the meantime."""
        if self.tensor._version != self._version:
            raise ModelError("a value that is still needed is changed in place")
        return self.tensor

    def shown(self, tensor: Tensor) -> Value:
        """The same value in another tensor."""
        rest = {"rounding": self.rounding, "fresh": self.fresh, "gain": self.gain, "pairs": self.pairs}
        return Value(tensor, self.bound, self.pending, **rest)  # type: ignore[arg-type]


def read(value: Any) -> Any:
    """The tensor of a value; a constant as it is."""
    return value.read() if isinstance(value, Value) else value


def values(of: Any) -> Iterator[Value]:
    """All values that depend on the input, in a value or a container."""
    if isinstance(of, Value):
        yield of
    elif isinstance(of, Mapping):
        yield from values(tuple(of.values()))
    elif isinstance(of, list | tuple):
        yield from itertools.chain.from_iterable(map(values, of))


def depends(value: Any) -> bool:
    """Whether a value, or one inside it, depends on the input."""
    return next(values(value), None) is not None


def _both(first: str, then: str) -> str:
    return first if then in first.split(" + ") else f"{first} + {then}"
