"""The all convolutional network."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from holdfast.models.layers import Activation, GlobalAverage, Norm, activation, check_image, conv_norm, scaled
from holdfast.models.network import Network

LAYOUT = (((96, 3, 1), (96, 3, 1), (96, 3, 2)), ((192, 3, 1), (192, 3, 1), (192, 3, 2)), ((192, 3, 1), (192, 1, 1)))
"""Channels, kernel and stride of the convolutions of each stage."""


@dataclass(frozen=True, kw_only=True)
class AllConv:
    """All-CNN-C: convolutions of stride 2 instead of pooling. Takes images of any size.

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
