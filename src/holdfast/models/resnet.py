"""Residual networks in the form for small images."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from holdfast.models.layers import (
    Activation,
    GlobalAverage,
    Norm,
    Residual,
    activation,
    check_image,
    conv_norm,
    quiet,
    scaled,
)
from holdfast.models.network import Network

CHANNELS = (64, 128, 256, 512)
EXPANSION = 4
"""Output channels of a bottleneck block over its inner channels."""


@dataclass(frozen=True, kw_only=True)
class ResNet:
    """ResNet with a 3x3 stem and no max-pool; the stages are the stem and groups of 64, 128, 256 and 512 channels.

    Takes images of any size. With `norm="none"` each branch starts at zero, see `layers.quiet`.

    Args:
        blocks: residual blocks in each of the four groups; all but the first group halve the image.
        bottleneck: blocks of 1x1, 3x3, 1x1 convolutions with four times the channels, instead of two 3x3.
        width: multiplier of all channels.
        norm: after each convolution.
        activation: inside and after each block.
        feature_dim: length of a linear neck before the head; None for no neck.

    Reference:
        He et al., Deep Residual Learning for Image Recognition, CVPR 2016, arXiv:1512.03385. Differs: the stem is one
        3x3 convolution of stride 1 with 64 channels and the groups have 64 to 512, the variant of public code for CIFAR
        (kuangliu/pytorch-cifar), not the paper's CIFAR networks of 16 to 64 channels; the bottleneck strides in its 3x3
        convolution.
    """

    blocks: tuple[int, int, int, int] = (2, 2, 2, 2)
    bottleneck: bool = False
    width: float = 1.0
    norm: Norm = "batch"
    activation: Activation = "relu"
    feature_dim: int | None = None

    def __call__(self, shape: tuple[int, int, int], classes: int) -> Network:
        """Build the network."""
        check_image("resnet", shape)
        inputs = scaled(CHANNELS[0], self.width)
        body = [nn.Sequential(*conv_norm(shape[0], inputs, norm=self.norm), activation(self.activation))]
        for group, count in enumerate(self.blocks):
            blocks = []
            for index in range(count):
                inner = scaled(CHANNELS[group], self.width)
                block, inputs = self._block(inputs, inner, stride=2 if group > 0 and index == 0 else 1)
                blocks.append(block)
            body.append(nn.Sequential(*blocks))
        return Network(
            body,
            GlobalAverage(),
            channels=shape[0],
            features=inputs,
            classes=classes,
            feature_dim=self.feature_dim,
        )

    def _block(self, inputs: int, inner: int, stride: int) -> tuple[Residual, int]:
        outputs = inner * EXPANSION if self.bottleneck else inner
        branch = self._bottleneck(inputs, inner, stride) if self.bottleneck else self._basic(inputs, inner, stride)
        if self.norm == "none":
            quiet(branch, sum(self.blocks))
        same = stride == 1 and inputs == outputs
        shortcut = (
            nn.Identity() if same else nn.Sequential(*conv_norm(inputs, outputs, 1, norm=self.norm, stride=stride))
        )
        return Residual(branch, shortcut, activation(self.activation)), outputs

    def _basic(self, inputs: int, inner: int, stride: int) -> nn.Sequential:
        return nn.Sequential(
            *conv_norm(inputs, inner, norm=self.norm, stride=stride),
            activation(self.activation),
            *conv_norm(inner, inner, norm=self.norm),
        )

    def _bottleneck(self, inputs: int, inner: int, stride: int) -> nn.Sequential:
        return nn.Sequential(
            *conv_norm(inputs, inner, 1, norm=self.norm),
            activation(self.activation),
            *conv_norm(inner, inner, norm=self.norm, stride=stride),
            activation(self.activation),
            *conv_norm(inner, inner * EXPANSION, 1, norm=self.norm),
        )
