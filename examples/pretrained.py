"""Published trained networks: the residual networks of 20 to 56 layers for CIFAR-10.

A recipe names the factory, `model: {python: {factory: "examples.pretrained:resnet20", options: {weights: FILE}}}`, and
the network comes with its weights and needs no training: `holdfast run` saves it as it is. It has `stages`, so that a
policy can use its first feature maps. See `recipes/evidence/cifar10_pretrained.yaml`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.models import load_weights


def resnet20(weights: str, classes: int = 10) -> nn.Module:
    """The network of 20 layers, see `resnet`."""
    return resnet(weights, 20, classes)


def resnet(weights: str, depth: int, classes: int = 10) -> nn.Module:
    """The network of He et al., Deep Residual Learning for Image Recognition, section 4.2, frozen.

    Args:
        weights: file with a state dict, in the current directory or below HOLDFAST_DATA.
        depth: number of layers with weights: 20, 32, 44 or 56.
        classes: number of logits.
    """
    model = ResNet(classes, (depth - 2) // 6)
    here = Path(weights)
    load_weights(model, here if here.exists() else Path(os.environ.get("HOLDFAST_DATA", "")) / weights)
    return model.requires_grad_(False)


class Block(nn.Module):
    """Two convolutions and a shortcut without weights: every second pixel, and new channels that are zero."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.stride, self.more = stride, after - before

    def forward(self, x: Tensor) -> Tensor:
        """Maps, (N, C, H, W)."""
        z = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        if self.more:
            shortcut = F.pad(shortcut, (0, 0, 0, 0, self.more // 2, self.more // 2))
        return F.relu(z + shortcut)


class ResNet(nn.Module):
    """Three groups of blocks, with 16, 32 and 64 channels."""

    def __init__(self, classes: int, blocks: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*[Block(16, 16, 1) for _ in range(blocks)])
        self.layer2 = nn.Sequential(Block(16, 32, 2), *[Block(32, 32, 1) for _ in range(blocks - 1)])
        self.layer3 = nn.Sequential(Block(32, 64, 2), *[Block(64, 64, 1) for _ in range(blocks - 1)])
        self.linear = nn.Linear(64, classes)

    def stages(self, x: Tensor) -> Iterator[Tensor]:
        """Yield the feature maps of each stage; computed only as far as they are consumed."""
        z = F.relu(self.bn1(self.conv1(x)))
        yield z
        for layer in (self.layer1, self.layer2, self.layer3):
            z = layer(z)
            yield z

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, K)."""
        *_, last = self.stages(x)
        logits: Tensor = self.linear(torch.mean(last, (2, 3)))
        return logits
