"""M5, a convolutional network of raw waveforms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from holdfast.models.layers import Activation, GlobalAverage, Norm, activation, check_image, conv_norm, scaled
from holdfast.models.network import Network


@dataclass(frozen=True, kw_only=True)
class M5:
    """Convolutions along the last axis, each with a normalisation and a max-pool of 4, and a global average.

    All kernels are 1 x k, so that a waveform is an image of one row; rows of taller images are averaged in the end.
    Each convolution is a stage.

    Args:
        channels: of the convolutions.
        kernel: samples that the first convolution sees; the others see three.
        stride: of the first convolution; of the others it is 1.
        pool: length and stride of the max-pools.
        width: multiplier of all channels.
        norm: after each convolution.
        activation: after each normalisation.
        feature_dim: length of a linear neck before the head; None for no neck.

    Reference:
        Dai et al., Very Deep Convolutional Neural Networks for Raw Waveforms, ICASSP 2017, arXiv:1610.00087, table 1
        (the defaults). `channels: [32, 32, 64, 64]` with `stride: 16` is the network that PyTorch's tutorial on speech
        commands calls M5, with less than a thirtieth of the work. A. Ma, in the chapter on optimisers of his thesis,
        names M5 in the table of networks and PreActResNet18 in the text on audio, and does not say which widths.
        Differs: zeros around the signal (the tutorial has none), a last pool that may be shorter, so that short signals
        pass, a linear head with bias after the average, and no bias before BatchNorm.
    """

    channels: tuple[int, ...] = (128, 128, 256, 512)
    kernel: int = 80
    stride: int = 4
    pool: int = 4
    width: float = 1.0
    norm: Norm = "batch"
    activation: Activation = "relu"
    feature_dim: int | None = None

    def __post_init__(self) -> None:
        if not self.channels or min(*self.channels, self.kernel, self.stride, self.pool) < 1:
            raise ValueError("m5: channels, kernel, stride, pool: expected numbers of at least 1, and some channels")

    def __call__(self, shape: tuple[int, int, int], classes: int) -> Network:
        """Build the network."""
        check_image("m5", shape)
        return Network(
            list(self._stages(shape[0])),
            GlobalAverage(),
            channels=shape[0],
            features=scaled(self.channels[-1], self.width),
            classes=classes,
            feature_dim=self.feature_dim,
        )

    def _stages(self, inputs: int) -> Iterator[nn.Sequential]:
        kernel, stride = self.kernel, self.stride
        for outputs in (scaled(channels, self.width) for channels in self.channels):
            yield nn.Sequential(
                *conv_norm(inputs, outputs, (1, kernel), norm=self.norm, stride=(1, stride)),
                activation(self.activation),
                nn.MaxPool2d((1, self.pool), ceil_mode=True),
            )
            inputs, kernel, stride = outputs, 3, 1
