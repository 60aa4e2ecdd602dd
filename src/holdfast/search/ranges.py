"""Ranges: what a recipe says in the place of a value that is searched for."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


class Range(Protocol):
    """Values to choose from."""

    def distribution(self) -> BaseDistribution:
        """What Optuna draws from."""

    def decode(self, drawn: Any) -> Any:
        """The recipe's form of a value that Optuna drew."""

    def grid(self) -> tuple[Any, ...]:
        """All that Optuna can draw; empty where there are too many to count."""

    def extremes(self) -> tuple[Any, ...]:
        """Values in the recipe's form that must all be allowed in the range's place."""

    def place(self, drawn: Any) -> float:
        """Where a value that Optuna drew lies in the range, from 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """Numbers between two ends, all alike.

    Args:
        low: smallest.
        high: largest.
        step: distance of neighbours, which must divide the range; None for any number.
    """

    low: float
    high: float
    step: float | None = None

    def __post_init__(self) -> None:
        _require_order(self.low, self.high)
        if self.step is not None:
            _divides(self.step, self.low, self.high)

    def distribution(self) -> BaseDistribution:
        """What Optuna draws from."""
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self.low, self.high, step=self.step)

    def decode(self, drawn: float) -> float:
        """The number."""
        return float(drawn)

    def grid(self) -> tuple[float, ...]:
        """All steps, if there are any."""
        if self.step is None:
            return ()
        return tuple(self.low + k * self.step for k in range(round((self.high - self.low) / self.step) + 1))

    def extremes(self) -> tuple[float, ...]:
        """Both ends."""
        return self.low, self.high

    def place(self, drawn: float) -> float:
        """The share of the range below."""
        return (drawn - self.low) / (self.high - self.low)


@dataclass(frozen=True, kw_only=True)
class Log:
    """Numbers between two positive ends, every ratio alike.

    Args:
        low: smallest.
        high: largest.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        _require_order(self.low, self.high)
        if not self.low > 0:
            raise ValueError(f"low must be positive in a log range, got {self.low:g}")

    def distribution(self) -> BaseDistribution:
        """What Optuna draws from."""
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self.low, self.high, log=True)

    def decode(self, drawn: float) -> float:
        """The number."""
        return float(drawn)

    def grid(self) -> tuple[float, ...]:
        """Too many to count."""
        return ()

    def extremes(self) -> tuple[float, ...]:
        """Both ends."""
        return self.low, self.high

    def place(self, drawn: float) -> float:
        """The share of the range below, in logarithms."""
        return math.log(drawn / self.low) / math.log(self.high / self.low)


@dataclass(frozen=True, kw_only=True)
class Whole:
    """Whole numbers between two ends.

    Args:
        low: smallest.
        high: largest.
        step: distance of neighbours, which must divide the range.
    """

    low: int
    high: int
    step: int = 1

    def __post_init__(self) -> None:
        _require_order(self.low, self.high)
        _divides(self.step, self.low, self.high)

    def distribution(self) -> BaseDistribution:
        """What Optuna draws from."""
        from optuna.distributions import IntDistribution

        return IntDistribution(self.low, self.high, step=self.step)

    def decode(self, drawn: int) -> int:
        """The number."""
        return int(drawn)

    def grid(self) -> tuple[int, ...]:
        """All of them."""
        return tuple(range(self.low, self.high + 1, self.step))

    def extremes(self) -> tuple[int, ...]:
        """Both ends."""
        return self.low, self.high

    def place(self, drawn: int) -> float:
        """The share of the range below."""
        return (drawn - self.low) / (self.high - self.low)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Any values, also whole methods with their fields.

    Optuna sees them as text, since its own categories are only words and numbers.

    Args:
        values: at least two, all different.
    """

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise ValueError(f"values: at least two expected, got {len(self.values)}")
        words = self.grid()
        for word in words:
            if words.count(word) > 1:
                raise ValueError(f"values: all different expected, got {word} {words.count(word)} times")

    def distribution(self) -> BaseDistribution:
        """What Optuna draws from."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.grid())

    def decode(self, drawn: str) -> Any:
        """The value that the text stands for."""
        return self.values[self.grid().index(drawn)]

    def grid(self) -> tuple[str, ...]:
        """The text of every value."""
        return tuple(value if isinstance(value, str) else json.dumps(value, default=str) for value in self.values)

    def extremes(self) -> tuple[Any, ...]:
        """Every value."""
        return self.values

    def place(self, drawn: str) -> float:
        """The position among the values."""
        return self.grid().index(drawn) / (len(self.values) - 1)


RANGES: Mapping[str, Any] = {"uniform": Uniform, "log": Log, "int": Whole, "choice": Choice}
"""What may follow `search:` in the place of a value."""


def _require_order(low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"low and high must be finite, got {low:g} and {high:g}")
    if not low < high:
        raise ValueError(f"low must be below high, got {low:g} and {high:g}")


def _divides(step: float, low: float, high: float) -> None:
    if not step > 0:
        raise ValueError(f"step must be positive, got {step:g}")
    steps = (high - low) / step
    if abs(steps - round(steps)) > 1e-9 * max(steps, 1.0) or round(steps) < 1:
        raise ValueError(f"step must divide the range from {low:g} to {high:g}, got {step:g}")
