"""Wide residual networks."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.models.layers import Activation, GlobalAverage, Norm, check_image, scaled
from holdfast.models.network import Network
from holdfast.models.preactresnet import preactivation_stages


@dataclass(frozen=True, kw_only=True)
class WideResNet:
    """WRN-depth-widen: a stem of 16 channels, then three groups of 16, 32 and 64 times `widen` channels.

    Takes images of any size. With `norm="none"` each branch starts at zero, see `layers.quiet`.

    Args:
        depth: weight layers, 6 n + 4 for n blocks per group.
        widen: widening factor of the groups.
        dropout: probability between the two convolutions of a block.
        width: multiplier of all channels, stem included.
        norm: before each activation.
        activation: before each convolution.
        feature_dim: length of a linear neck before the head; None for no neck.

    Reference:
        Zagoruyko, Komodakis, Wide Residual Networks, BMVC 2016, arXiv:1605.07146. As in the authors' code and those of
        TRADES and AugMix, a block that changes sizes projects the activated input.
    """

    depth: int = 40
    widen: int = 2
    dropout: float = 0.0
    width: float = 1.0
    norm: Norm = "batch"
    activation: Activation = "relu"
    feature_dim: int | None = None

    def __post_init__(self) -> None:
        if self.depth < 10 or (self.depth - 4) % 6:
            raise ValueError(f"wrn: depth must be 6 n + 4 and at least 10, got {self.depth}")

    def __call__(self, shape: tuple[int, int, int], classes: int) -> Network:
        """Build the network."""
        check_image("wrn", shape)
        blocks = (self.depth - 4) // 6
        groups = [(scaled(channels * self.widen, self.width), blocks) for channels in (16, 32, 64)]
        stem = scaled(16, self.width)
        return Network(
            preactivation_stages(shape[0], stem, groups, norm=self.norm, act=self.activation, dropout=self.dropout),
            GlobalAverage(),
            channels=shape[0],
            features=groups[-1][0],
            classes=classes,
            feature_dim=self.feature_dim,
        )
