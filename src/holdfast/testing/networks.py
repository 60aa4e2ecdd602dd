"""Small networks and images on which the contracts are tried; of some the right answer is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.lipschitz.moments import Moments
from holdfast.rng import Streams
from holdfast.threat.l1 import L1
from holdfast.threat.l2 import L2
from holdfast.threat.linf import Linf

THREAT_KINDS: dict[str, Any] = {"linf": Linf, "l2": L2, "l1": L1}

DUALS = {"linf": 1.0, "l2": 2.0, "l1": torch.inf}
"""Order of the norm that is dual to each."""

Module = TypeVar("Module", bound=nn.Module)


def images(
    count: int, shape: tuple[int, ...] = (1, 4, 4), *, seed: int = 0, low: float = 0.0, high: float = 1.0,
    dtype: torch.dtype = torch.float64,
) -> Tensor:  # fmt: skip
    """Uniform images with values in [low, high)."""
    return low + (high - low) * Streams(seed, "zoo images", count).uniform(torch.empty(count, *shape, dtype=dtype))


def labels(count: int, classes: int, *, seed: int = 0) -> Tensor:
    """Uniform labels."""
    return Streams(seed, "zoo labels", count).integers(classes)


@dataclass(frozen=True)
class Affine:
    """A linear layer that is its weight and bias, without parameters of its own."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, features: Tensor) -> Tensor:
        """Logits."""
        return F.linear(features, self.weight, self.bias)


class Linear(nn.Module):
    """K-class linear classifier of flattened images."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def features(self, x: Tensor) -> Tensor:
        """The flattened image."""
        return x.flatten(1)

    @property
    def head(self) -> Affine:
        """The layer."""
        return Affine(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.head(self.features(x))

    def moments(self, x: Tensor, sigma: float) -> Moments:
        """Mean and variance of the logits under Gaussian noise."""
        return Moments(self(x), sigma**2 * (self.weight**2).sum(1).expand(len(x), -1))


def linear(
    classes: int, shape: tuple[int, ...] = (1, 4, 4), *, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Linear:
    """A linear classifier with normal weights, its logits centred on the middle of the box."""
    size = torch.Size(shape).numel()
    weight = Streams(seed, "zoo weights", classes).normal(torch.empty(classes, size, dtype=dtype))
    return Linear(weight, -0.5 * weight.sum(1))


class HalfSpace(nn.Module):
    """Two classes with logits -m, +m for m = <w, x> + b: class 1 where m > 0."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def signed(self, x: Tensor) -> Tensor:
        """How far each image is from the boundary, in units of the weight's length, with a sign."""
        return x.flatten(1) @ self.weight + self.bias

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        m = self.signed(x)
        return torch.stack((-m, m), dim=1)


def half_space(size: int = 12, *, seed: int = 0, dtype: torch.dtype = torch.float64) -> HalfSpace:
    """A half-space through the middle of the box."""
    weight = Streams(seed, "zoo half-space").normal(torch.empty(1, size, dtype=dtype))[0]
    return HalfSpace(weight, -0.5 * weight.sum())


def half_space_distance(model: HalfSpace, x: Tensor, kind: str) -> Tensor:
    """Distance of each x to the decision boundary: margin over dual norm. Exact where the box does not matter."""
    with torch.no_grad():
        return cast(Tensor, model.signed(x).abs() / torch.linalg.vector_norm(model.weight, DUALS[kind]))


def half_space_points(
    model: HalfSpace, count: int = 20, *, seed: int = 0, scale: float = 0.02
) -> tuple[Tensor, Tensor]:
    """Points near the middle of the box with their labels by the model: the box is far in every norm."""
    like = torch.empty(count, len(model.weight), dtype=model.weight.dtype)
    x = 0.5 + scale * Streams(seed, "zoo points", count).normal(like)
    with torch.no_grad():
        return x, model(x).argmax(1)


class Normed(nn.Module):
    """Convolution, BatchNorm, ReLU, dropout, dense: everything that depends on the mode."""

    def __init__(self, classes: int = 3, channels: int = 1, side: int = 4, dropout: float = 0.5) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(4 * side * side, classes)

    def features(self, x: Tensor) -> Tensor:
        """The input of the last layer."""
        return cast(Tensor, self.dropout(F.relu(self.norm(self.convolution(x))).flatten(1)))

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return cast(Tensor, self.head(self.features(x)))

    def moments(self, x: Tensor, sigma: float) -> Moments:
        """As if the noise came in behind the features."""
        return Moments(self(x), sigma**2 * (self.head.weight**2).sum(1).expand(len(x), -1))


def seeded(make: Callable[[], Module], seed: int = 0) -> Module:
    """A module made with a seed, the global random state left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make()


def normed(classes: int = 3, *, dropout: float = 0.5, side: int = 4) -> Normed:
    """A network with BatchNorm statistics of its own, in eval mode, float64."""
    model = seeded(lambda: Normed(classes, side=side, dropout=dropout)).double()
    statistics: Any = model.norm
    with torch.no_grad():
        statistics.running_mean.copy_(images(4, ())[:4])
        statistics.running_var.copy_(0.5 + images(4, (), seed=1)[:4])
    return model.eval()


def frozen_norm() -> Normed:
    """A network in train mode whose BatchNorm is frozen in eval mode, and without dropout."""
    model = normed(dropout=0.0).train()
    model.norm.eval()
    return model


def smooth(classes: int = 5, shape: tuple[int, ...] = (1, 4, 4), *, seed: int = 0) -> nn.Sequential:
    """A random smooth network (float64), so that gradients differ from point to point and nothing ties."""
    size = torch.Size(shape).numel()
    first, last = seeded(lambda: nn.ModuleList([nn.Linear(size, 16), nn.Linear(16, classes)]), seed)
    with torch.no_grad():
        cast(nn.Linear, first).weight.mul_(4)
        cast(nn.Linear, last).weight.mul_(4)
    return nn.Sequential(nn.Flatten(), first, nn.Tanh(), last).double().eval()
