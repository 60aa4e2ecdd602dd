r"""Layers that the architectures share.

Weights of hidden layers are drawn as :math:`\mathcal N(0, 2 / \text{fan in})`, which keeps the scale of ReLU
activations from layer to layer and lets plain networks train without normalisation. Convolutions have a bias only where
no normalisation follows.

Reference:
    He et al., Delving Deep into Rectifiers, ICCV 2015, arXiv:1502.01852, equation 10.
    Zhang, Dauphin, Ma, Fixup Initialization, ICLR 2019, arXiv:1901.09321.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from holdfast.errors import unknown

Norm = Literal["batch", "group", "layer", "none"]
Activation = Literal["relu", "leaky_relu", "elu", "silu", "gelu", "softplus", "tanh"]

Layer = TypeVar("Layer", nn.Conv2d, nn.Linear)

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "softplus": nn.Softplus,
    "tanh": nn.Tanh,
}
_NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm2d,
    "group": lambda channels: nn.GroupNorm(groups(channels), channels),
    "layer": lambda channels: nn.GroupNorm(1, channels),
    "none": lambda channels: nn.Identity(),
}


def activation(name: str) -> nn.Module:
    """The activation of that name."""
    if name not in _ACTIVATIONS:
        raise ValueError(f"activation: {unknown(name, _ACTIVATIONS)}")
    return _ACTIVATIONS[name]()


def normalisation(kind: str, channels: int) -> nn.Module:
    """The normalisation of feature maps of that kind; "none" is the identity."""
    if kind not in _NORMS:
        raise ValueError(f"norm: {unknown(kind, _NORMS)}")
    return _NORMS[kind](channels)


def groups(channels: int) -> int:
    """Groups of GroupNorm: the most, up to 32, that divide the channels and leave at least 8 in each group."""
    return next(count for count in range(max(1, min(32, channels // 8)), 0, -1) if channels % count == 0)


def scaled(channels: int, width: float) -> int:
    """Channels times a width multiplier, at least 4."""
    if not width > 0:
        raise ValueError(f"width: expected a positive factor, got {width}")
    return max(4, round(channels * width))


def convolution(
    inputs: int,
    outputs: int,
    kernel: int | tuple[int, int] = 3,
    *,
    stride: int | tuple[int, int] = 1,
    padding: int | None = None,
    groups: int = 1,
    bias: bool = False,
) -> nn.Conv2d:
    """A convolution with He's weights; without a padding of their own, odd kernels at stride 1 keep the size."""
    sides = (kernel, kernel) if isinstance(kernel, int) else kernel
    around = ((sides[0] - 1) // 2, (sides[1] - 1) // 2) if padding is None else padding
    layer = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=around, groups=groups, bias=bias)
    return _he(layer)


def dense(inputs: int, outputs: int) -> nn.Linear:
    """A hidden linear layer with He's weights."""
    return _he(nn.Linear(inputs, outputs))


def conv_norm(
    inputs: int,
    outputs: int,
    kernel: int | tuple[int, int] = 3,
    *,
    norm: Norm,
    stride: int | tuple[int, int] = 1,
    groups: int = 1,
) -> tuple[nn.Module, nn.Module]:
    """A convolution and the normalisation after it."""
    layer = convolution(inputs, outputs, kernel, stride=stride, groups=groups, bias=norm == "none")
    return layer, normalisation(norm, outputs)


class GlobalAverage(nn.Module):
    """Mean over height and width, (N, C, H, W) to (N, C)."""

    def forward(self, x: Tensor) -> Tensor:
        """Pooled vector."""
        return x.mean(dim=(2, 3))


class Residual(nn.Module):
    """`last(branch(x) + shortcut(x))`.

    Args:
        branch: the layers to learn.
        shortcut: identity or projection.
        last: what follows the sum.
    """

    def __init__(self, branch: nn.Module, shortcut: nn.Module, last: nn.Module) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut = shortcut
        self.last = last

    def forward(self, x: Tensor) -> Tensor:
        """Output of the block."""
        z: Tensor = self.last(self.branch(x) + self.shortcut(x))
        return z


def quiet(branch: nn.Module, blocks: int) -> None:
    r"""Start a residual branch at zero, so that a network without normalisation does not explode with depth.

    The last of the branch's :math:`m` convolutions starts at 0 and the others are scaled by
    :math:`L^{-1/(2m-2)}` for :math:`L` blocks: rules 1 and 2 of Fixup. Differs: full biases, no scalar multipliers.
    """
    layers = [module for module in branch.modules() if isinstance(module, nn.Conv2d)]
    with torch.no_grad():
        for layer in layers[:-1]:
            layer.weight.mul_(blocks ** (-1 / (2 * len(layers) - 2)))
        layers[-1].weight.zero_()


def check_image(name: str, shape: tuple[int, int, int], smallest: int = 1) -> None:
    """Refuse a shape that is no image or too small for the architecture."""
    if len(shape) != 3 or min(shape) < 1:
        raise ValueError(f"{name}: expected an image shape (channels, height, width), got {tuple(shape)}")
    if min(shape[1:]) < smallest:
        raise ValueError(f"{name}: images must be at least {smallest}x{smallest}, got {shape[1]}x{shape[2]}")


def _he(layer: Layer) -> Layer:
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
