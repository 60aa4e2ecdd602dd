"""The tools of the rules of a Lipschitz bound: the tally of the bound, and the site of each operation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.lipschitz.merging import merged
from holdfast.lipschitz.norms import ORDER, Dense, LinearMap, OperatorNorm, repeated
from holdfast.lipschitz.pairs import row_differences, uniform_factor
from holdfast.lipschitz.radii import ALPHA, Norm
from holdfast.lipschitz.rounding import ELEMENTARY, EXACT, Rounding, double, gamma, outward
from holdfast.lipschitz.values import Pairs, Step, Value

Rule = Callable[..., Any]
"""A rule propagates a bound: from the `Site` and the arguments of an operation to its output as a `Value`."""


@dataclass(frozen=True)
class LayerBound:
    """The contribution of one layer to the bound.

    Args:
        name: path of the layer; several if they count as one.
        kind: its class or operation.
        norm: the factor used. For a sum or concatenation, relative to the largest bound of an input.
        estimate: a value below the true norm where `norm` is not exact, by power iteration; else `norm`, or None where
            nothing is known.
        bound: bound of the network up to this layer.
    """

    name: str
    kind: str
    norm: float
    estimate: float | None
    bound: float


@dataclass(frozen=True)
class Tally:
    """Record of the layers where the bound grows.

    Args:
        norm: norm of inputs and outputs.
        power_steps: maximum of iterations for the estimate of a norm that is only bounded.
        merge: whether neighbouring linear layers count as one where that has a formula.
        layers: the entries, in the order of the forward pass.
    """

    norm: Norm
    power_steps: int = 0
    merge: bool = True
    layers: list[LayerBound] = field(default_factory=list)

    def record(self, name: str, kind: str, bound: float, norm: OperatorNorm) -> float:
        """Record a layer and return the bound after it."""
        total = outward(bound * norm.certain, ELEMENTARY)
        if not math.isfinite(total):
            raise _refusal(name, kind, "the bound is not finite, nor are all weights")
        self.layers.append(LayerBound(name, kind, norm.upper, norm.estimate, total))
        return total

    def settle(self, value: Value) -> float:
        """The bound of a value, with the norms of its pending layers."""
        pairs = self._pairs(value) if value.pending else value.pairs
        for step in value.pending:
            norm = self._norm(step)
            value.bound = self.record(step.name, step.kind, value.bound, norm)
            value.rounding = value.rounding * norm.certain
        value.rounding, value.fresh = value.rounding + value.fresh, EXACT
        value.pending, value.gain, value.pairs = (), 1.0, pairs
        return value.bound

    def differences(self, value: Value) -> Pairs:
        r"""Bounds of the differences of every two outputs (N, K), at most :math:`\alpha_p K_p` each; see `pairs`."""
        bound, classes = outward(ALPHA[self.norm] * self.settle(value)), value.tensor.shape[1]
        general, inner = torch.full((classes, classes), bound, dtype=torch.float64), value.pairs
        return lambda: general if inner is None else torch.minimum(general, inner().cpu())

    def _pairs(self, value: Value) -> Pairs | None:
        """The same after the pending layer, if it is a matrix or one factor for all outputs."""
        if value.tensor.dim() != 2 or len(value.pending) != 1:
            return None
        (last,) = value.pending
        if isinstance(last.map, Dense):
            bound, weight, slack = value.bound, last.map.weight, ALPHA[self.norm] * last.slack.of(self.norm)
            return lambda: outward(bound, ELEMENTARY) * (row_differences(weight, self.norm) + slack)
        factor, inner = uniform_factor(last.map), value.pairs
        if factor is None or inner is None:
            return None
        return lambda: outward(factor + last.slack.linf, ELEMENTARY) * inner()

    def _norm(self, step: Step) -> OperatorNorm:
        weights = (getattr(step.map, part.name) for part in dataclasses.fields(step.map))  # type: ignore[arg-type]
        if any(isinstance(each, Tensor) and not each.isfinite().all() for each in weights):
            raise _refusal(step.name, step.kind, "weights are not finite")
        norm = step.map.norm(self.norm, steps=self.power_steps)
        return dataclasses.replace(norm, rounding=norm.rounding + step.slack.of(self.norm))


@dataclass(frozen=True)
class Site:
    """An operation of the graph, with the facts that a rule needs.

    Args:
        tally: record of the bound.
        name: path of the layer.
        kind: the layer's class, or the operation.
        call: the operation itself.
        output: its output; None before it was called.
    """

    tally: Tally
    name: str
    kind: str
    call: Callable[..., Any]
    output: Any = None

    @property
    def norm(self) -> Norm:
        """The norm of inputs and outputs."""
        return self.tally.norm

    def refuse(self, reason: str) -> ModelError:
        """The error of an operation without a bound."""
        return _refusal(self.name, self.kind, reason)

    def same(self, value: Value, terms: int = 0, offset: float = 0.0) -> Value:
        """The output of an operation that leaves differences as long as they are.

        Args:
            value: the input.
            terms: number of roundings of an output.
            offset: length of constants that are added on the way.
        """
        output = value.shown(self.output)
        output.fresh = output.fresh + self._rounded(terms, self.size(value) * 2 + Rounding(offset))
        return output

    def times(self, value: Value, factor: float, terms: int = 0, pairs: Pairs | None = None) -> Value:
        """The output of an operation that makes differences at most `factor` times longer.

        Args:
            value: the input.
            factor: how much longer, in any direction.
            terms: number of roundings of an output, relative to its size and that of an input times `factor`.
            pairs: bounds of the differences of every two outputs, if known.
        """
        bound, size = self.tally.settle(value), self.size(value)
        if factor != 1:
            bound = self.tally.record(self.name, self.kind, bound, OperatorNorm(upper=factor))
        fresh = self._rounded(terms, size * factor + self._units(max(1.0, factor))) if terms else EXACT
        return Value(self.output, bound, rounding=value.rounding * outward(factor, ELEMENTARY) + fresh, pairs=pairs)

    def joined(
        self, parts: Sequence[tuple[Value, float]], join: Callable[[list[float]], float], pairs: Pairs | None = None
    ) -> Value:
        """The output of several branches.

        Args:
            parts: the branches, and how much longer each becomes before they meet.
            join: makes one bound of theirs, at most the sum.
            pairs: bounds of the differences of every two outputs, if known.
        """
        bounds = [self.tally.settle(value) * factor for value, factor in parts]
        rounding = sum((value.rounding * factor for value, factor in parts), EXACT)
        size = sum((self.size(value) * factor for value, factor in parts), EXACT)
        largest, total = max(bounds), join(bounds)
        if len(bounds) > 1 and largest > 0:
            growth = OperatorNorm(upper=total / largest)
            total = self.tally.record(self.name, self.kind, largest, growth)
        fresh = self._rounded(ELEMENTARY, size * 2)
        return Value(self.output, outward(total, 4 * len(bounds)), rounding=rounding + fresh, pairs=pairs)

    def linear(self, value: Value, layer: LinearMap, offset: float = 0.0) -> Value:
        """The output of a linear layer, which counts as one with those before it where that has a formula.

        Args:
            value: the input.
            layer: the layer.
            offset: length of constants that the layer adds and takes off on the way, beside its bias.
        """
        size, gain = self.size(value), layer.absolute().of(self.norm)
        fresh = value.fresh * gain + self._rounded(layer.terms, size * (2 * gain) + Rounding(offset))
        pending, step = list(value.pending), Step(self.name, self.kind, layer)
        while self.tally.merge and pending and (one := merged(pending[-1].map, step.map)) is not None:
            step = step.after(pending.pop(), one)
        return Value(
            self.output,
            value.bound,
            (*pending, step),
            rounding=value.rounding,
            fresh=fresh,
            gain=outward(value.gain * gain, ELEMENTARY),
            pairs=value.pairs,
        )

    def size(self, value: Value) -> Rounding:
        r"""A bound of how long a value is: :math:`\|v(x)\| \le \|v(0)\| + K \|x\|`, and its rounding twice."""
        rounding = value.rounding * value.gain + value.fresh
        return Rounding(self._length(value.tensor), value.bound * value.gain) + rounding * 2

    def _rounded(self, terms: int, size: Rounding) -> Rounding:
        """The effect of that many roundings on an output of numbers of that size."""
        return (size + Rounding(self._length(self.output))) * gamma(terms) if terms else EXACT

    def _length(self, tensor: Tensor) -> float:
        """Length of the tensor for the image of zeros."""
        return float(torch.linalg.vector_norm(double(tensor[-1]).flatten(), ORDER[self.norm]))

    def _units(self, factor: float) -> Rounding:
        """Elementary functions are rounded relative to 1 where they are near it."""
        return Rounding(factor * repeated(self.output[-1].numel(), self.norm))


def place(name: str, kind: str) -> str:
    """The name of a layer in errors."""
    return f"layer '{name}', {kind}"


def _refusal(name: str, kind: str, reason: str) -> ModelError:
    return ModelError(f"lipschitz bound: {place(name, kind)}: {reason}")
