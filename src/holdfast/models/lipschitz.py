"""1-Lipschitz networks, of orthogonal layers and activations that increase no distance."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from torch import nn

from holdfast.errors import unknown
from holdfast.lipschitz.activations import GroupSort, Householder
from holdfast.lipschitz.convolution import Downsampling, OrthogonalConvolution
from holdfast.lipschitz.dense import OrthogonalDense
from holdfast.models.layers import check_image, scaled
from holdfast.models.network import Network

Activation = Literal["relu", "maxmin", "groupsort", "householder"]

_ACTIVATIONS: dict[str, Callable[[int], nn.Module]] = {
    "relu": lambda channels: nn.ReLU(),
    "maxmin": lambda channels: GroupSort(2),
    "groupsort": lambda channels: GroupSort(max(2, channels)),
    "householder": Householder,
}


@dataclass(frozen=True, kw_only=True)
class LipschitzMLP:
    """A multilayer perceptron of orthogonal layers, 1-Lipschitz in l2; the published one for 28x28 images.

    Args:
        hidden: units of the hidden layers.
        width: multiplier of all hidden layers.
        activation: after each hidden layer; groupsort sorts a whole layer.
        bias: whether layers add one; moments under noise need none, but allow it.
        feature_dim: length of an orthogonal neck before the head; None for no neck.

    Reference:
        Crespo, Teramae, Smoothed Robustness Analysis, TMLR, appendix C.1.
    """

    hidden: tuple[int, ...] = (512, 512, 512)
    width: float = 1.0
    activation: Activation = "relu"
    bias: bool = False
    feature_dim: int | None = None

    def __post_init__(self) -> None:
        _require_activation(self.activation)

    def __call__(self, shape: tuple[int, int, int], classes: int) -> Network:
        """Build the network."""
        check_image("lipschitz-mlp", shape)
        sizes = [math.prod(shape), *(scaled(units, self.width) for units in self.hidden)]
        layers = [_dense(a, b, self.activation, self.bias) for a, b in itertools.pairwise(sizes)]
        return Network(
            [nn.Flatten(), *layers],
            nn.Identity(),
            channels=shape[0],
            features=sizes[-1],
            classes=classes,
            feature_dim=self.feature_dim,
            normalised=False,
            dense=partial(OrthogonalDense, bias=self.bias),
        )


@dataclass(frozen=True, kw_only=True)
class LipschitzCNN:
    """Orthogonal convolutions with invertible downsampling, then a dense layer, 1-Lipschitz in l2.

    Each stage halves the image, turning four neighbours into channels, and has a convolution of kernel 2 and one of
    kernel 3, in place of the paper's kernel 4 with stride 2 and kernel 3.

    Args:
        channels: channels of the stages.
        hidden: units of the dense layers.
        width: multiplier of channels and units.
        activation: after each layer; groupsort sorts all channels of a place.
        bias: whether layers add one.
        feature_dim: length of an orthogonal neck before the head; None for no neck.

    Reference:
        Crespo, Teramae, Smoothed Robustness Analysis, TMLR, appendix C.1.
    """

    channels: tuple[int, ...] = (8, 16)
    hidden: tuple[int, ...] = (512,)
    width: float = 1.0
    activation: Activation = "relu"
    bias: bool = False
    feature_dim: int | None = None

    def __post_init__(self) -> None:
        _require_activation(self.activation)

    def __call__(self, shape: tuple[int, int, int], classes: int) -> Network:
        """Build the network."""
        check_image("lipschitz-cnn", shape)
        inputs, height, width = shape
        stages: list[nn.Module] = []
        for wide in self.channels:
            outputs, height, width = scaled(wide, self.width), -(-height // 2), -(-width // 2)
            stages.append(_stage(4 * inputs, outputs, self.activation, self.bias))
            inputs = outputs
        sizes = [inputs * height * width, *(scaled(units, self.width) for units in self.hidden)]
        layers = [_dense(a, b, self.activation, self.bias) for a, b in itertools.pairwise(sizes)]
        return Network(
            [*stages, nn.Flatten(), *layers],
            nn.Identity(),
            channels=shape[0],
            features=sizes[-1],
            classes=classes,
            feature_dim=self.feature_dim,
            normalised=False,
            dense=partial(OrthogonalDense, bias=self.bias),
        )


def _stage(inputs: int, outputs: int, activation: str, bias: bool) -> nn.Module:
    return nn.Sequential(
        Downsampling(),
        OrthogonalConvolution(inputs, outputs, 2, bias=bias),
        _ACTIVATIONS[activation](outputs),
        OrthogonalConvolution(outputs, outputs, 3, bias=bias),
        _ACTIVATIONS[activation](outputs),
    )


def _dense(inputs: int, outputs: int, activation: str, bias: bool) -> nn.Module:
    return nn.Sequential(OrthogonalDense(inputs, outputs, bias=bias), _ACTIVATIONS[activation](outputs))


def _require_activation(name: str) -> None:
    if name not in _ACTIVATIONS:
        raise ValueError(f"activation: {unknown(name, _ACTIVATIONS)}")
