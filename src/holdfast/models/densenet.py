"""Densely connected networks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from holdfast.models.layers import (
    Activation,
    GlobalAverage,
    Norm,
    activation,
    check_image,
    convolution,
    normalisation,
    scaled,
)
from holdfast.models.network import Network


class Concatenate(nn.Module):
    """The input with the output of a branch behind it, along the channels."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: Tensor) -> Tensor:
        """Input and output together."""
        return torch.cat((x, self.branch(x)), dim=1)


@dataclass(frozen=True, kw_only=True)
class DenseNet:
    """Three dense blocks with transitions that halve the image; images must be at least 4x4.

    The defaults are the network of the AugMix code, DenseNet-40-12 without bottleneck or compression.
    DenseNet-BC-100-12 is `DenseNet(depth=100, bottleneck=True, compression=0.5)`.

    Args:
        depth: weight layers, 3 n + 4 for n layers per block, or 6 n + 4 with bottlenecks.
        growth: channels that each layer adds.
        bottleneck: a 1x1 convolution to four times the growth before each 3x3.
        compression: share of the channels that a transition keeps.
        width: multiplier of the growth.
        norm: before each activation.
        activation: before each convolution.
        feature_dim: length of a linear neck before the head; None for no neck.

    Reference:
        Huang et al., Densely Connected Convolutional Networks, CVPR 2017, arXiv:1608.06993. Differs: the stem has
        twice the growth in channels for all variants (the paper: 16 without bottleneck), as in the AugMix code.
    """

    depth: int = 40
    growth: int = 12
    bottleneck: bool = False
    compression: float = 1.0
    width: float = 1.0
    norm: Norm = "batch"
    activation: Activation = "relu"
    feature_dim: int | None = None

    def __post_init__(self) -> None:
        unit = 6 if self.bottleneck else 3
        if self.depth < 4 + unit or (self.depth - 4) % unit:
            raise ValueError(f"densenet: depth must be {unit} n + 4 and at least {4 + unit}, got {self.depth}")
        if not 0 < self.compression <= 1:
            raise ValueError(f"densenet: compression must be in (0, 1], got {self.compression}")

    def __call__(self, shape: tuple[int, int, int], classes: int) -> Network:
        """Build the network."""
        check_image("densenet", shape, 4)
        growth = scaled(self.growth, self.width)
        channels = 2 * growth
        body: list[nn.Module] = [convolution(shape[0], channels, bias=self.norm == "none")]
        for block in range(3):
            layers: list[nn.Module] = []
            if block > 0:
                kept = int(channels * self.compression)
                layers += [*self._unit(channels, kept, 1), nn.AvgPool2d(2)]
                channels = kept
            for _ in range((self.depth - 4) // (6 if self.bottleneck else 3)):
                layers.append(Concatenate(nn.Sequential(*self._layer(channels, growth))))
                channels += growth
            body.append(nn.Sequential(*layers))
        body[-1] = nn.Sequential(body[-1], normalisation(self.norm, channels), activation(self.activation))
        return Network(
            body,
            GlobalAverage(),
            channels=shape[0],
            features=channels,
            classes=classes,
            feature_dim=self.feature_dim,
        )

    def _layer(self, channels: int, growth: int) -> list[nn.Module]:
        if not self.bottleneck:
            return self._unit(channels, growth, 3)
        return [*self._unit(channels, 4 * growth, 1), *self._unit(4 * growth, growth, 3)]

    def _unit(self, inputs: int, outputs: int, kernel: int) -> list[nn.Module]:
        return [
            normalisation(self.norm, inputs),
            activation(self.activation),
            convolution(inputs, outputs, kernel, bias=self.norm == "none"),
        ]
