"""MobileNetV3-Small in the form for small images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.models.layers import GlobalAverage, Norm, Residual, check_image, conv_norm, convolution, dense, quiet
from holdfast.models.network import Network

# Kernel, expansion, output, squeeze-and-excite, hard-swish, stride of each block, by stage.
LAYOUT = (
    ((3, 16, 16, True, False, 1),),
    ((3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1)),
    (
        (5, 96, 40, True, True, 2),
        (5, 240, 40, True, True, 1),
        (5, 240, 40, True, True, 1),
        (5, 120, 48, True, True, 1),
        (5, 144, 48, True, True, 1),
    ),
    ((5, 288, 96, True, True, 2), (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1)),
)


class HardSigmoid(nn.Module):
    """`relu6(x + 3) / 6`; PyTorch's own has no second derivative."""

    def forward(self, x: Tensor) -> Tensor:
        """Gate in [0, 1]."""
        return F.relu6(x + 3) / 6


class HardSwish(nn.Module):
    """`x relu6(x + 3) / 6`; PyTorch's own has no second derivative."""

    def forward(self, x: Tensor) -> Tensor:
        """Activation."""
        return x * F.relu6(x + 3) / 6


class SqueezeExcite(nn.Module):
    """Scales each channel by a gate computed from all channel means; the gate has a quarter of the channels inside."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = eighths(channels / 4)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            convolution(channels, inner, 1, bias=True),
            nn.ReLU(),
            convolution(inner, channels, 1, bias=True),
            HardSigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Gated map."""
        z: Tensor = x * self.gate(x)
        return z


@dataclass(frozen=True, kw_only=True)
class MobileNetV3Small:
    """MobileNetV3-Small with stride 1 in the stem and in the first block, so 32x32 images end at 4x4.

    Takes images of any size. The activations are part of the architecture. With `norm="none"` each residual branch
    starts at zero, see `layers.quiet`.

    Args:
        width: multiplier of all channels, rounded to multiples of 8.
        norm: after each convolution.
        feature_dim: length of a linear neck before the head; None for no neck.

    Reference:
        Howard et al., Searching for MobileNetV3, ICCV 2019, arXiv:1905.02244, table 2. Differs: strides as above, no
        dropout, no squeeze-and-excite in the last 1x1 convolution (as in common implementations).
    """

    width: float = 1.0
    norm: Norm = "batch"
    feature_dim: int | None = None

    def __call__(self, shape: tuple[int, int, int], classes: int) -> Network:
        """Build the network."""
        check_image("mobilenetv3-small", shape)
        stem, last, features = (eighths(channels * self.width) for channels in (16, 576, 1024))
        end = eighths(96 * self.width)
        return Network(
            [
                nn.Sequential(*conv_norm(shape[0], stem, norm=self.norm), HardSwish()),
                *self._stages(stem),
                nn.Sequential(*conv_norm(end, last, 1, norm=self.norm), HardSwish()),
            ],
            nn.Sequential(GlobalAverage(), dense(last, features), HardSwish()),
            channels=shape[0],
            features=features,
            classes=classes,
            feature_dim=self.feature_dim,
        )

    def _stages(self, inputs: int) -> Iterator[nn.Sequential]:
        for stage in LAYOUT:
            blocks = []
            for kernel, expansion, output, excite, swish, stride in stage:
                inner, outputs = eighths(expansion * self.width), eighths(output * self.width)
                blocks.append(self._block(inputs, inner, outputs, kernel, excite, swish, stride))
                inputs = outputs
            yield nn.Sequential(*blocks)

    def _block(
        self, inputs: int, inner: int, outputs: int, kernel: int, excite: bool, swish: bool, stride: int
    ) -> nn.Module:
        act = HardSwish if swish else nn.ReLU
        expand = [] if inner == inputs else [*conv_norm(inputs, inner, 1, norm=self.norm), act()]
        branch = nn.Sequential(
            *expand,
            *conv_norm(inner, inner, kernel, norm=self.norm, stride=stride, groups=inner),
            act(),
            *([SqueezeExcite(inner)] if excite else []),
            *conv_norm(inner, outputs, 1, norm=self.norm),
        )
        if stride != 1 or inputs != outputs:
            return branch
        if self.norm == "none":
            quiet(branch, sum(len(stage) for stage in LAYOUT))
        return Residual(branch, nn.Identity(), nn.Identity())


def eighths(channels: float) -> int:
    """The nearest multiple of 8, at least 8, and not more than a tenth below."""
    if not channels > 0:
        raise ValueError(f"width: expected a positive factor, got {channels} channels")
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded
