"""Distortion of images by random networks, one for every image."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.rng import Streams, streams
from holdfast.threat.shape import per_example

FLAT = 0.01
"""Smallest root mean square of a change that is scaled up to its drawn size."""


@dataclass(frozen=True, kw_only=True)
class DeepAugment:
    r"""Distort each image by a small residual network whose weights are drawn for it alone.

    .. math:: h_0 = \tanh(V_0 (2x - 1)), \quad h_{l+1} = h_l + \phi_l(W_l * h_l), \quad
        z = \mathrm{clip}\Bigl(x + \rho \frac{\Delta}{\mathrm{rms}(\Delta)}\Bigr), \quad \Delta = V_1 h_L

    :math:`W_l` are 3 x 3 convolutions, :math:`V_0, V_1` mix channels, all with normal entries; :math:`\phi_l` is a
    rectifier, a sine or a hyperbolic tangent. The mean of :math:`\Delta` over each channel is subtracted, so that
    textures and edges change rather than the tint, and its size :math:`\rho \sim U(0, s)` is drawn for each image.

    Args:
        strength: :math:`s`, largest root mean square of the change before clipping, in [0, 1] pixel units.
        layers: :math:`L`.
        channels: channels of the hidden images.

    Reference:
        Hendrycks et al., The Many Faces of Robustness, ICCV 2021, arXiv:2006.16241 (DeepAugment), and its on-the-fly
        variant Noise2Net. Differs: DeepAugment distorts the weights and activations of trained autoencoders and super
        resolution networks and writes the images to disk; Noise2Net draws one network for a batch. Here nothing is
        trained, and every image has its own network from its own stream, so that results do not depend on the batch.
    """

    strength: float = 0.15
    layers: int = 3
    channels: int = 8

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= 1:
            raise ValueError(f"strength: expected a number in [0, 1], got {self.strength}")
        if self.layers < 1 or self.channels < 1:
            raise ValueError(f"layers and channels: expected at least 1, got {self.layers} and {self.channels}")

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """The distorted images, (N, C, H, W) as `x`."""
        rng = streams(rng, x)
        if not len(x):
            return x  # a convolution needs a group
        size = rng.uniform(x.new_empty(len(x))) * self.strength
        change = self._change(2 * x - 1, rng)
        change = change - change.mean((2, 3), keepdim=True)
        spread = change.flatten(1).square().mean(1).sqrt()
        factor = size / spread.clamp_min(FLAT)  # else the rounding of a flat image would be blown up
        return (x + per_example(factor, x) * change).clamp_(0, 1)

    def _change(self, x: Tensor, rng: Streams) -> Tensor:
        """Changes of images in [-1, 1] by the random networks."""
        C = x.shape[1]
        hidden = torch.tanh(convolved(x, _weights(rng, x, self.channels, C, 1)))
        for _ in range(self.layers):
            waves = convolved(hidden, _weights(rng, x, self.channels, self.channels, 3))
            hidden = hidden + _bent(waves, rng.integers(3, device=x.device))
        return convolved(hidden, _weights(rng, x, C, self.channels, 1))


def convolved(x: Tensor, weight: Tensor) -> Tensor:
    """Each image (N, C, H, W) by its own kernels (N, O, C, k, k), mirrored at the border; (N, O, H, W).

    One convolution whose groups are the images.
    """
    N, outputs, C, side, _ = weight.shape
    margin = side // 2
    padded = F.pad(x, (margin,) * 4, mode="reflect" if min(x.shape[2:]) > margin else "replicate")
    joined = F.conv2d(padded.reshape(1, N * C, *padded.shape[2:]), weight.reshape(N * outputs, C, side, side), groups=N)
    return joined.view(N, outputs, *x.shape[2:])


def _bent(waves: Tensor, kind: Tensor) -> Tensor:
    """Each image through a rectifier (0), a sine (1) or a hyperbolic tangent (2)."""
    bent = waves.relu()
    for number, bend in enumerate((torch.sin, torch.tanh), start=1):
        rows = (kind == number).nonzero()[:, 0]
        bent[rows] = bend((3 - number) * waves[rows])
    return bent


def _weights(rng: Streams, like: Tensor, outputs: int, inputs: int, side: int) -> Tensor:
    """Normal kernels that keep the variance of what they act on."""
    drawn = rng.normal(like.new_empty(len(like), outputs, inputs, side, side))
    return drawn / math.sqrt(inputs * side**2)
