"""Plain convolutional networks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from holdfast.models.layers import Activation, Norm, activation, check_image, conv_norm, dense, scaled
from holdfast.models.network import Network


@dataclass(frozen=True, kw_only=True)
class CNN:
    """Blocks of convolutions with an optional max-pool after each, then dense layers.

    Each block and each hidden dense layer is a stage. The padding is `(kernel - 1) // 2`.

    Args:
        blocks: output channels of the convolutions of each block.
        kernel: side of all kernels.
        stride: of all convolutions.
        pool: side and stride of the max-pool that ends a block; 1 for none.
        hidden: units of the hidden dense layers.
        width: multiplier of all channels and hidden units.
        norm: after each convolution.
        activation: after each convolution and each hidden dense layer.
        feature_dim: length of a linear neck before the head; None for no neck.

    Reference:
        The defaults are the MNIST network of Ma, Pan, Farahmand, Understanding the robustness difference between
        stochastic gradient descent and adaptive gradient methods, TMLR 2023, arXiv:2308.06703, appendix: two
        convolutions and two dense layers with no activation between the dense ones. `lenet` is the LeNet5 of
        advertorch's MNIST examples; `cnn6` and `cnn8` have as many convolutions as those of SOAR, whose widths are not
        published.
    """

    blocks: tuple[tuple[int, ...], ...] = ((16,), (32,))
    kernel: int = 4
    stride: int = 1
    pool: int = 1
    hidden: tuple[int, ...] = ()
    width: float = 1.0
    norm: Norm = "none"
    activation: Activation = "relu"
    feature_dim: int | None = 100

    def __post_init__(self) -> None:
        if not self.blocks or not all(self.blocks):
            raise ValueError(f"cnn: blocks: expected at least one, each with a convolution; got {self.blocks}")

    def __call__(self, shape: tuple[int, int, int], classes: int) -> Network:
        """Build the network."""
        check_image("cnn", shape, next(side for side in itertools.count(1) if self._side(side) > 0))
        area = self._side(shape[1]) * self._side(shape[2])
        sizes = [
            area * scaled(self.blocks[-1][-1], self.width),
            *(scaled(units, self.width) for units in self.hidden),
        ]
        layers = [nn.Sequential(dense(a, b), activation(self.activation)) for a, b in itertools.pairwise(sizes)]
        return Network(
            [*self._convolutions(shape[0]), nn.Flatten(), *layers],
            nn.Identity(),
            channels=shape[0],
            features=sizes[-1],
            classes=classes,
            feature_dim=self.feature_dim,
        )

    def _convolutions(self, inputs: int) -> Iterator[nn.Sequential]:
        for block in self.blocks:
            layers: list[nn.Module] = []
            for outputs in (scaled(channels, self.width) for channels in block):
                layers += conv_norm(inputs, outputs, self.kernel, norm=self.norm, stride=self.stride)
                layers.append(activation(self.activation))
                inputs = outputs
            yield nn.Sequential(*layers, *([nn.MaxPool2d(self.pool)] if self.pool > 1 else []))

    def _side(self, side: int) -> int:
        """Side of the last feature map; 0 or less where the image is too small."""
        for block in self.blocks:
            for _ in block:
                side = (side + 2 * ((self.kernel - 1) // 2) - self.kernel) // self.stride + 1
            side //= self.pool
        return side
