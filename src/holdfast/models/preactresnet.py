"""Residual networks with normalisation and activation before each convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from holdfast.models.layers import (
    Activation,
    GlobalAverage,
    Norm,
    activation,
    check_image,
    convolution,
    normalisation,
    quiet,
    scaled,
)
from holdfast.models.network import Network


class PreActivation(nn.Module):
    """Norm, activation, 3x3, norm, activation, 3x3, added to the input or to a projection.

    Args:
        inputs: channels that come in.
        outputs: channels that go out.
        stride: of the first convolution.
        norm: before each activation.
        act: name of the activation.
        dropout: probability between the two convolutions.
        project_raw: project the input itself, where sizes differ, instead of its activation.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        stride: int,
        norm: Norm,
        act: Activation,
        dropout: float = 0.0,
        *,
        project_raw: bool = False,
    ) -> None:
        super().__init__()
        self.project_raw = project_raw
        bias = norm == "none"
        self.first = nn.Sequential(normalisation(norm, inputs), activation(act))
        self.branch = nn.Sequential(
            convolution(inputs, outputs, stride=stride, bias=bias),
            normalisation(norm, outputs),
            activation(act),
            *([nn.Dropout(dropout)] if dropout > 0 else []),
            convolution(outputs, outputs, bias=bias),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = None if same else convolution(inputs, outputs, 1, stride=stride, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Output of the block."""
        z = self.first(x)
        straight = x if self.shortcut is None else self.shortcut(x if self.project_raw else z)
        out: Tensor = self.branch(z) + straight
        return out


def preactivation_stages(
    inputs: int,
    stem: int,
    groups: Sequence[tuple[int, int]],
    *,
    norm: Norm,
    act: Activation,
    dropout: float = 0.0,
    project_raw: bool = False,
) -> list[nn.Module]:
    """Stem, then groups of (channels, blocks), all but the first of stride 2; the last ends in norm and activation."""
    total = sum(count for _, count in groups)
    stages: list[nn.Module] = [convolution(inputs, stem, bias=norm == "none")]
    inputs = stem
    for group, (outputs, count) in enumerate(groups):
        blocks = []
        for index in range(count):
            stride = 2 if group > 0 and index == 0 else 1
            block = PreActivation(inputs, outputs, stride, norm, act, dropout, project_raw=project_raw)
            if norm == "none":
                quiet(block.branch, total)
            blocks.append(block)
            inputs = outputs
        stages.append(nn.Sequential(*blocks))
    stages[-1] = nn.Sequential(stages[-1], normalisation(norm, inputs), activation(act))
    return stages


@dataclass(frozen=True, kw_only=True)
class PreActResNet:
    """PreActResNet with a 3x3 stem; the stages are the stem and groups of 64, 128, 256 and 512 channels.

    Takes images of any size. With `norm="none"` each branch starts at zero, see `layers.quiet`.

    Args:
        blocks: residual blocks in each of the four groups; all but the first group halve the image.
        project_raw: project the input itself where sizes differ, as public code of adversarial training does (fast
            adversarial training, robust overfitting); He projects its normalised activation.
        width: multiplier of all channels.
        norm: before each activation.
        activation: before each convolution.
        feature_dim: length of a linear neck before the head; None for no neck.

    Reference:
        He et al., Identity Mappings in Deep Residual Networks, ECCV 2016, arXiv:1603.05027; channels, blocks and stem
        are those of public code for CIFAR (kuangliu/pytorch-cifar). As in the paper, a last normalisation and
        activation follow the last block; some public versions leave them out.
    """

    blocks: tuple[int, int, int, int] = (2, 2, 2, 2)
    project_raw: bool = False
    width: float = 1.0
    norm: Norm = "batch"
    activation: Activation = "relu"
    feature_dim: int | None = None

    def __call__(self, shape: tuple[int, int, int], classes: int) -> Network:
        """Build the network."""
        check_image("preactresnet", shape)
        channels = [scaled(64 * 2**group, self.width) for group in range(4)]
        groups = list(zip(channels, self.blocks, strict=True))
        return Network(
            preactivation_stages(
                shape[0], channels[0], groups, norm=self.norm, act=self.activation, project_raw=self.project_raw
            ),
            GlobalAverage(),
            channels=shape[0],
            features=channels[-1],
            classes=classes,
            feature_dim=self.feature_dim,
        )
