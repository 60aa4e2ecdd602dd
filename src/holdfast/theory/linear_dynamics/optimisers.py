r"""Gradient descent, momentum, signGD, Adam and RMSProp as pure functions of a gradient and a memory.

The adaptive ones work coordinate by coordinate, so it matters in which coordinates a problem is written; gradient
descent and momentum do not care.

Reference:
    Ma, thesis, equation 4.2, whose :math:`\beta` weighs the new gradient: torch's are one minus them. In its terms
    RMSProp has :math:`\beta_1 = 1`, and signGD :math:`\beta_1 = \beta_2 = 1` with :math:`\epsilon = 0`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Memory:
    """What an optimiser remembers of earlier gradients.

    Args:
        first: a mean of gradients.
        second: a mean of their squares.
        steps: taken before this one.
    """

    first: Tensor
    second: Tensor
    steps: int = 0


def blank(like: Tensor) -> Memory:
    """The memory before the first step."""
    return Memory(first=torch.zeros_like(like), second=torch.zeros_like(like))


class Optimiser(Protocol):
    """A rule for steps."""

    def __call__(self, gradient: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """What to subtract from the weights, and what to remember."""
        ...


@dataclass(frozen=True, kw_only=True)
class GD:
    """Gradient descent.

    Args:
        rate: learning rate.
    """

    rate: float

    def __call__(self, gradient: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """The gradient times the rate."""
        return self.rate * gradient, memory


@dataclass(frozen=True, kw_only=True)
class Momentum:
    """Gradient descent with heavy-ball momentum.

    Args:
        rate: learning rate.
        momentum: share of the last step kept.
    """

    rate: float
    momentum: float = 0.9

    def __call__(self, gradient: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """The decaying sum of gradients times the rate."""
        first = self.momentum * memory.first + gradient
        return self.rate * first, Memory(first=first, second=memory.second)


@dataclass(frozen=True, kw_only=True)
class SignGD:
    """The sign of the gradient: Adam and RMSProp without memory.

    Args:
        rate: learning rate, the length of each coordinate's step.
    """

    rate: float

    def __call__(self, gradient: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """The signs times the rate; a coordinate without gradient stays."""
        return self.rate * gradient.sign(), memory


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam with bias correction.

    Args:
        rate: learning rate.
        betas: decay of the first and second moment.
        floor: added to the root of the second moment.
    """

    rate: float
    betas: tuple[float, float] = (0.9, 0.999)
    floor: float = 1e-8

    def __call__(self, gradient: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """The mean gradient over the root of the mean square."""
        steps = memory.steps + 1
        first = torch.lerp(gradient, memory.first, self.betas[0])
        second = torch.lerp(gradient.square(), memory.second, self.betas[1])
        mean, square = (m / (1 - beta**steps) for m, beta in zip((first, second), self.betas, strict=True))
        return self.rate * mean / (square.sqrt() + self.floor), Memory(first=first, second=second, steps=steps)


@dataclass(frozen=True, kw_only=True)
class RMSProp:
    """RMSProp.

    Args:
        rate: learning rate.
        decay: of the second moment.
        floor: added to its root.
    """

    rate: float
    decay: float = 0.99
    floor: float = 1e-8

    def __call__(self, gradient: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """The gradient over the root of the mean square."""
        second = torch.lerp(gradient.square(), memory.second, self.decay)
        return self.rate * gradient / (second.sqrt() + self.floor), Memory(first=memory.first, second=second)
