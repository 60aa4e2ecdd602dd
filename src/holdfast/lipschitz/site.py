"""What the rules of a Lipschitz bound work with: values of the forward pass, and the place of each operation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from holdfast.errors import ModelError
from holdfast.lipschitz.merging import merged
from holdfast.lipschitz.norms import LinearMap, OperatorNorm
from holdfast.lipschitz.radii import Norm

Rule = Callable[..., Any]
"""Says what a bound becomes: takes the `Site` and the arguments of an operation, gives its output as a `Value`."""


@dataclass(frozen=True)
class LayerBound:
    """What one layer adds to the bound.

    Args:
        name: path of the layer; several if they count as one.
        kind: what it is.
        norm: the factor used. For a sum or concatenation, over the largest bound that goes in.
        estimate: a value below the true norm where `norm` is not exact, by power iteration; else `norm`, or None where
            nothing is known.
        bound: of all up to this layer.
    """

    name: str
    kind: str
    norm: float
    estimate: float | None
    bound: float


@dataclass(frozen=True)
class Step:
    """A linear layer whose norm is not taken yet."""

    name: str
    kind: str
    map: LinearMap


class Value:
    """A value that depends on the input: the tensor itself, and the bound of what the pending layers are applied to."""

    def __init__(self, tensor: Tensor, bound: float, pending: tuple[Step, ...] = ()) -> None:
        self.tensor, self.bound, self.pending = tensor, bound, pending
        self._version = tensor._version

    def read(self) -> Tensor:
        """The tensor, if nobody has written to it meanwhile."""
        if self.tensor._version != self._version:
            raise ModelError("a value that is still needed is changed in place")
        return self.tensor


def read(value: Any) -> Any:
    """The tensor of a value; a constant as it is."""
    return value.read() if isinstance(value, Value) else value


def depends(value: Any) -> bool:
    """Whether a value, or one inside it, depends on the input."""
    if isinstance(value, Mapping):
        return any(map(depends, value.values()))
    return isinstance(value, Value) or (isinstance(value, list | tuple) and any(map(depends, value)))


@dataclass(frozen=True)
class Tally:
    """Writes down where the bound grows.

    Args:
        norm: of inputs and outputs.
        power_steps: at most so many for the estimate of a norm that is only bounded.
        layers: what was written, in the order of the forward pass.
    """

    norm: Norm
    power_steps: int = 0
    layers: list[LayerBound] = field(default_factory=list)

    def record(self, name: str, kind: str, bound: float, norm: OperatorNorm) -> float:
        """The bound after a layer, which is written down."""
        total = bound * norm.upper
        if not math.isfinite(total):
            raise _refusal(name, kind, "the bound is not finite, nor are all weights")
        self.layers.append(LayerBound(name, kind, norm.upper, norm.estimate, total))
        return total

    def settle(self, value: Value) -> float:
        """The bound of a value, with the norms of its pending layers."""
        for step in value.pending:
            value.bound = self.record(step.name, step.kind, value.bound, self._norm(step))
        value.pending = ()
        return value.bound

    def _norm(self, step: Step) -> OperatorNorm:
        weights = (getattr(step.map, part.name) for part in dataclasses.fields(step.map))  # type: ignore[arg-type]
        if any(isinstance(each, Tensor) and not each.isfinite().all() for each in weights):
            raise _refusal(step.name, step.kind, "weights are not finite")
        return step.map.norm(self.norm, steps=self.power_steps)


@dataclass(frozen=True)
class Site:
    """An operation of the graph, with what a rule needs to know.

    Args:
        tally: where the bound is written down.
        name: path of the layer.
        kind: the layer's class, or the operation.
        call: the operation itself.
        output: what it gave; None before it was called.
    """

    tally: Tally
    name: str
    kind: str
    call: Callable[..., Any]
    output: Any = None

    @property
    def norm(self) -> Norm:
        """Of inputs and outputs."""
        return self.tally.norm

    def refuse(self, reason: str) -> ModelError:
        """The error of an operation without a bound."""
        return _refusal(self.name, self.kind, reason)

    def of(self, bound: float, pending: tuple[Step, ...] = ()) -> Value:
        """The output, with its bound."""
        return Value(self.output, bound, pending)

    def same(self, value: Value) -> Value:
        """The output of an operation that leaves differences as long as they are."""
        return self.of(value.bound, value.pending)

    def times(self, value: Value, factor: float) -> Value:
        """The output of an operation that makes differences at most `factor` times longer."""
        bound = self.tally.settle(value)
        if factor == 1:
            return self.of(bound)
        return self.of(self.tally.record(self.name, self.kind, bound, OperatorNorm(upper=factor)))

    def joined(self, bounds: Sequence[float], total: float) -> Value:
        """The output of several branches."""
        largest = max(bounds)
        if len(bounds) < 2 or largest == 0:
            return self.of(total)
        growth = OperatorNorm(upper=total / largest, exact=False)
        return self.of(self.tally.record(self.name, self.kind, largest, growth))

    def linear(self, value: Value, layer: LinearMap) -> Value:
        """The output of a linear layer, which counts as one with those before it where that has a formula."""
        pending, step = list(value.pending), Step(self.name, self.kind, layer)
        while pending and (one := merged(pending[-1].map, step.map)) is not None:
            before = pending.pop()
            step = Step(_both(before.name, step.name), _both(before.kind, step.kind), one)
        return self.of(value.bound, (*pending, step))


def place(name: str, kind: str) -> str:
    """How errors name a layer."""
    return f"layer '{name}', {kind}"


def _refusal(name: str, kind: str, reason: str) -> ModelError:
    return ModelError(f"lipschitz bound: {place(name, kind)}: {reason}")


def _both(first: str, then: str) -> str:
    return first if then in first.split(" + ") else f"{first} + {then}"
