"""One class for all architectures: normalise, stages, pool, an optional neck, then a linear head."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import MethodType
from typing import Any, overload

import torch
from torch import Tensor, nn

from holdfast.lipschitz.moments import Moments, through
from holdfast.types import Classifier


class Normalise(nn.Module):
    """`(x - mean) / std` per channel; both are buffers, so a checkpoint carries them.

    Args:
        mean: one value per channel.
        std: one positive value per channel.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std):
            raise ValueError(f"normalise: {len(mean)} means and {len(std)} standard deviations")
        if not all(0 < value < math.inf for value in std):
            raise ValueError(f"normalise: standard deviations must be positive, got {list(std)}")
        if not all(map(math.isfinite, mean)):
            raise ValueError(f"normalise: means must be finite, got {list(mean)}")
        self.register_buffer("mean", torch.tensor(list(mean), dtype=torch.get_default_dtype()).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(list(std), dtype=torch.get_default_dtype()).view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Normalised images, (N, C, H, W)."""
        return (x - self.mean) / self.std


class Network(nn.Module):
    """A classifier with access to its stages and features. It starts without normalisation; `build` sets `normalise`.

    Args:
        body: stages, each fed with the output of the one before.
        pool: output of the last stage to a vector, (N, features).
        channels: channels of the images.
        features: length of the pooled vector.
        classes: number of logits.
        feature_dim: length of a neck, a linear layer without activation before the head; None for no neck.
        normalised: whether it normalises at all; a network that must not stretch distances does not.
        dense: makes a linear layer from its numbers of inputs and outputs.
    """

    def __init__(
        self,
        body: Sequence[nn.Module],
        pool: nn.Module,
        *,
        channels: int,
        features: int,
        classes: int,
        feature_dim: int | None = None,
        normalised: bool = True,
        dense: Callable[[int, int], nn.Module] = nn.Linear,
    ) -> None:
        super().__init__()
        if classes < 1:
            raise ValueError(f"network: classes must be at least 1, got {classes}")
        self.normalise: nn.Module = normalise_channels(channels, None, None) if normalised else nn.Identity()
        self.body = nn.ModuleList(body)
        self.pool = pool
        self.neck = nn.Identity() if feature_dim is None else dense(features, feature_dim)
        self.head = dense(features if feature_dim is None else feature_dim, classes)

    def stages(self, x: Tensor) -> Iterator[Tensor]:
        """The output of each stage, one after the other; computed only as far as it is consumed."""
        z = self.normalise(x)
        for stage in self.body:
            z = stage(z)
            yield z

    def first_maps(self, x: Tensor) -> Tensor:
        """The first stage as far as its maps have the image's height and width, (N, C, H, W).

        It stops before the layer that pools, strides or flattens. Where that is the first one, these are the normalised
        images themselves.
        """
        z: Tensor = self.normalise(x)
        for layer in _layers(self.body[0]):
            maps = layer(z)
            if maps.shape[2:] != x.shape[2:]:
                break
            z = maps
        return z

    def features(self, x: Tensor) -> Tensor:
        """The penultimate vector, (N, F)."""
        z: Tensor = self.normalise(x)
        for stage in self.body:
            z = stage(z)
        vector: Tensor = self.neck(self.pool(z))
        return vector

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, K)."""
        logits: Tensor = self.head(self.features(x))
        return logits

    def moments(self, x: Tensor, sigma: float) -> Moments:
        """Mean and variance of the logits when the images have noise of this deviation; see `lipschitz.propagate`."""
        stretch = 1 / self.normalise.std if isinstance(self.normalise, Normalise) else 1.0
        given = Moments(self.normalise(x), torch.ones_like(x) * (sigma * stretch) ** 2)
        return through((*self.body, self.pool, self.neck, self.head), given)


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    """The layers of nested sequences, in their order."""
    if not isinstance(module, nn.Sequential):
        yield module
        return
    for inner in module:
        yield from _layers(inner)


class Normalised(nn.Module):
    """A network with a normalisation in front, so that it takes images in [0, 1].

    It has those of `stages`, `first_maps`, `features` and `head` that the network has.

    Args:
        network: a network of normalised images.
        mean: one value per channel.
        std: one positive value per channel.
    """

    def __init__(self, network: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.normalise = Normalise(mean, std)
        self.network = network

    def __getattr__(self, name: str) -> Any:
        """An attribute of the network that a module lacks."""
        if name in SHOWN and callable(getattr(super().__getattr__("network"), name, None)):
            return MethodType(SHOWN[name], self)  # a method, as Fabric requires
        behind: Any = super().__getattr__("network" if name == "head" else name)
        return behind.head if name == "head" else behind

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, K)."""
        logits: Tensor = self.network(self.normalise(x))
        return logits


def _stages(model: Normalised, x: Tensor) -> Any:
    behind: Any = model.network
    return behind.stages(model.normalise(x))


def _features(model: Normalised, x: Tensor) -> Any:
    behind: Any = model.network
    return behind.features(model.normalise(x))


def _first_maps(model: Normalised, x: Tensor) -> Any:
    behind: Any = model.network
    return behind.first_maps(model.normalise(x))


SHOWN = {"stages": _stages, "features": _features, "first_maps": _first_maps}
"""Methods of the network inside that a network with a normalisation in front has, too."""


PerChannel = float | Sequence[float]
"""A number for each channel, or one for all of them."""


@overload
def normalised(model: nn.Module, mean: PerChannel = 0.0, std: PerChannel = 1.0) -> nn.Module: ...
@overload
def normalised(model: Classifier, mean: PerChannel = 0.0, std: PerChannel = 1.0) -> Classifier: ...
def normalised(model: Classifier, mean: PerChannel = 0.0, std: PerChannel = 1.0) -> Classifier:
    """Put a normalisation in front of a classifier, so that it takes images in [0, 1].

    Args:
        model: a module or a function that expects normalised images.
        mean: subtracted from the images.
        std: divides them; positive.
    """
    channels = max(1 if isinstance(values, int | float) else len(values) for values in (mean, std))
    means, deviations = (
        [float(values)] * channels if isinstance(values, int | float) else list(values) for values in (mean, std)
    )
    if not isinstance(model, nn.Module):
        Normalise(means, deviations)  # refuses what cannot be
        return partial(_after_normalising, model, means, deviations)
    made, first = Normalised(model, means, deviations), next(model.parameters(), None)
    if first is not None:
        made.normalise.to(first)
    return made


def _after_normalising(model: Classifier, mean: Sequence[float], std: Sequence[float], x: Tensor) -> Tensor:
    centre, scale = (torch.as_tensor(values, dtype=x.dtype, device=x.device)[:, None, None] for values in (mean, std))
    return model((x - centre) / scale)


def normalise_channels(channels: int, mean: Sequence[float] | None, std: Sequence[float] | None) -> Normalise:
    """The normalisation of images with that many channels; None for a mean of 0 or a deviation of 1."""
    mean = [0.0] * channels if mean is None else mean
    std = [1.0] * channels if std is None else std
    if len(mean) != channels or len(std) != channels:
        raise ValueError(f"normalise: {len(mean)} means and {len(std)} standard deviations for {channels} channels")
    return Normalise(mean, std)
