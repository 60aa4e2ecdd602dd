"""All convolutional networks: the original, and the variant of the AugMix code."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from holdfast.models.layers import (
    Activation,
    GlobalAverage,
    Norm,
    activation,
    check_image,
    conv_norm,
    convolution,
    normalisation,
    scaled,
)
from holdfast.models.network import Network

LAYOUT = (((96, 3, 1), (96, 3, 1), (96, 3, 2)), ((192, 3, 1), (192, 3, 1), (192, 3, 2)), ((192, 3, 1), (192, 1, 1)))
"""Channels, kernel and stride of the convolutions of each stage."""


@dataclass(frozen=True, kw_only=True)
class AllConv:
    """All-CNN-C of Springenberg: convolutions of stride 2 instead of pooling. Takes images of any size.

    Tables of AugMix, PixMix and SPIDER have another network of this name, `AllConvAugMix`.

    Args:
        width: multiplier of all channels.
        norm: after each convolution; the paper has "none", later users of the network have "batch".
        activation: after each convolution.
        feature_dim: length of a linear neck before the head; None for no neck.

    Reference:
        Springenberg et al., Striving for Simplicity: The All Convolutional Net, ICLR 2015 workshop, arXiv:1412.6806,
        table 1. Differs: no dropout; every 3x3 convolution is padded; the last 1x1 convolution to the classes is the
        linear head after the average, which is the same function without the ReLU on the class maps.
    """

    width: float = 1.0
    norm: Norm = "batch"
    activation: Activation = "relu"
    feature_dim: int | None = None

    def __call__(self, shape: tuple[int, int, int], classes: int) -> Network:
        """Build the network."""
        check_image("allconv", shape)
        inputs = shape[0]
        body = []
        for stage in LAYOUT:
            layers: list[nn.Module] = []
            for channels, kernel, stride in stage:
                outputs = scaled(channels, self.width)
                layers += conv_norm(inputs, outputs, kernel, norm=self.norm, stride=stride)
                layers.append(activation(self.activation))
                inputs = outputs
            body.append(nn.Sequential(*layers))
        return Network(
            body,
            GlobalAverage(),
            channels=shape[0],
            features=inputs,
            classes=classes,
            feature_dim=self.feature_dim,
        )


AUGMIX_LAYOUT = (((96, 3, 1),) * 3, ((192, 3, 1),) * 3, ((192, 3, 0), (192, 1, 1), (192, 1, 1)))
"""Channels, kernel and padding of the convolutions of each stage; the padded 1x1 ones enlarge their maps."""


class CornerAverage(nn.Module):
    """Mean over all rows and columns but the last two, (N, C, H, W) to (N, C).

    The published network averages over 8x8 of the 10x10 places that images of 32x32 have at its end.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Pooled vector."""
        return x[..., :-2, :-2].mean(dim=(2, 3))


@dataclass(frozen=True, kw_only=True)
class AllConvAugMix:
    """The AllConvNet of the AugMix code, which tables of AugMix, PixMix and SPIDER use: max-pools, dropout and GELU.

    Nine convolutions with biases, one 3x3 of them without padding and the last two 1x1. Images of 12x12 and more.

    Args:
        dropout: probability after each max-pool.
        width: multiplier of all channels.
        norm: after each convolution.
        activation: after each normalisation.
        feature_dim: length of a linear neck before the head; None for no neck.

    Reference:
        Hendrycks et al., AugMix, ICLR 2020, arXiv:1912.02781; github.com/google-research/augmix,
        models/cifar/allconv.py. Differs: the exact GELU instead of x sigmoid(1.702 x), and He's weights by fan in
        instead of fan out.
    """

    dropout: float = 0.5
    width: float = 1.0
    norm: Norm = "batch"
    activation: Activation = "gelu"
    feature_dim: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: expected a probability below 1, got {self.dropout}")

    def __call__(self, shape: tuple[int, int, int], classes: int) -> Network:
        """Build the network."""
        check_image("allconv-augmix", shape, 12)
        inputs, body = shape[0], []
        for number, stage in enumerate(AUGMIX_LAYOUT):
            layers: list[nn.Module] = [nn.MaxPool2d(2), nn.Dropout(self.dropout)] if number else []
            for channels, kernel, padding in stage:
                outputs = scaled(channels, self.width)
                layers += [convolution(inputs, outputs, kernel, padding=padding, bias=True)]
                layers += [normalisation(self.norm, outputs), activation(self.activation)]
                inputs = outputs
            body.append(nn.Sequential(*layers))
        return Network(
            body,
            CornerAverage(),
            channels=shape[0],
            features=inputs,
            classes=classes,
            feature_dim=self.feature_dim,
        )
