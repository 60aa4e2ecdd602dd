"""A published trained network as one half of a composite: the residual network of 20 layers for CIFAR-10.

A recipe names the factory, `model: {python: {factory: "examples.pretrained:resnet20", options: {weights: FILE}}}`, and
the network comes with its weights and needs no training: `holdfast run` saves it as it is. It has `stages`, so that a
policy can use its first feature maps (`recipes/evidence/cifar10_pretrained.yaml`). With `fresh_head: true` it has its
trained features and an untrained head for any number of classes, which `train: {freeze: features}` trains
(`recipes/evidence/cifar100_frozen_features.yaml`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.models import load_weights


def resnet20(weights: str, classes: int = 10, trained_classes: int = 10, fresh_head: bool = False) -> nn.Module:
    """The network of He et al., Deep Residual Learning for Image Recognition, section 4.2, frozen.

    Args:
        weights: file with a state dict, in the current directory or below HOLDFAST_DATA.
        classes: number of logits.
        trained_classes: number of logits of the network in the file.
        fresh_head: replace the last layer by one that has learnt nothing and can be trained.
    """
    model = ResNet20(trained_classes)
    here = Path(weights)
    load_weights(model, here if here.exists() else Path(os.environ.get("HOLDFAST_DATA", "")) / weights)
    model.requires_grad_(False)
    if fresh_head:
        model.linear = nn.Linear(model.linear.in_features, classes)
    elif classes != trained_classes:
        raise ValueError(f"fresh_head: expected true, as the file has {trained_classes} classes and the data {classes}")
    return model


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


class ResNet20(nn.Module):
    """Three groups of three blocks, with 16, 32 and 64 channels."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*[Block(16, 16, 1) for _ in range(3)])
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1), Block(64, 64, 1))
        self.linear = nn.Linear(64, classes)

    def stages(self, x: Tensor) -> Iterator[Tensor]:
        """Yield the feature maps of each stage; computed only as far as they are consumed."""
        z = F.relu(self.bn1(self.conv1(x)))
        yield z
        for layer in (self.layer1, self.layer2, self.layer3):
            z = layer(z)
            yield z

    @property
    def head(self) -> nn.Linear:
        """The last layer, which the file calls `linear`."""
        return self.linear

    def features(self, x: Tensor) -> Tensor:
        """Inputs of the last layer, (N, 64)."""
        *_, last = self.stages(x)
        return last.mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, K)."""
        logits: Tensor = self.linear(self.features(x))
        return logits
