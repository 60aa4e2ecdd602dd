r"""Orthogonal convolutions (BCOP) with cyclic padding, and invertible downsampling in place of strides.

A kernel of size :math:`k` is the block convolution of an orthogonal matrix with :math:`k - 1` kernels of size two,

.. math:: \begin{pmatrix} PQ & P(I-Q) \\ (I-P)Q & (I-P)(I-Q) \end{pmatrix},

with projectors :math:`P = M M^\top` on half of the channels. Each is a row kernel :math:`(P, I-P)` after a column
kernel :math:`(Q, I-Q)`, and appending one of these to a kernel :math:`W` along its axis is
:math:`W_{j-1} + (W_j - W_{j-1})\, P`: two thin matrix products.

Reference:
    Li et al., Preventing Gradient Attenuation in Lipschitz Constrained Convolutional Networks, NeurIPS 2019,
    arXiv:1911.00937. Xiao et al., Dynamical Isometry and a Mean Field Theory of CNNs, ICML 2018, arXiv:1806.05393.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.lipschitz.dense import OrthogonalMatrices, filled


class OrthogonalConvolution(nn.Module):
    """A convolution of stride 1 with cyclic padding, all of whose singular values are 1: 1-Lipschitz in l2.

    With fewer outputs than inputs it is orthogonal in its rows, otherwise it keeps every norm.

    Args:
        inputs: channels of the input.
        outputs: channels of the output.
        kernel: height and width of the kernel.
        bias: whether to add a bias per channel.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, *, bias: bool = False) -> None:
        super().__init__()
        if kernel < 1:
            raise ValueError(f"kernel must be at least 1, got {kernel}")
        self.inputs, self.outputs, self.kernel = inputs, outputs, kernel
        channels = max(inputs, outputs)
        self.matrix = OrthogonalMatrices(outputs, inputs)
        half = max(1, channels // 2)
        self.projectors = OrthogonalMatrices(2 * (kernel - 1), channels, half) if kernel > 1 else None
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    @property
    def weight(self) -> Tensor:
        """The kernel, (outputs, inputs, kernel, kernel)."""
        matrix: Tensor = self.matrix()
        if self.projectors is None:
            return matrix[:, :, None, None]
        return compose(matrix, self.projectors())

    def forward(self, x: Tensor) -> Tensor:
        """(N, outputs, H, W)."""
        return F.conv2d(wrap(x, self.kernel), self.weight, self.bias)

    def plain(self) -> nn.Module:
        """Ordinary layers with the same outputs."""
        weight = self.weight.detach()
        layer = filled(nn.Conv2d, weight, self.bias, self.inputs, self.outputs, self.kernel)
        before, after = margins(self.kernel)
        pad = nn.CircularPad2d((before, after, before, after)) if self.kernel > 1 else nn.Identity()
        return nn.Sequential(pad, layer).train(self.training)


def compose(matrix: Tensor, halves: Tensor) -> Tensor:
    """The orthogonal kernel of a matrix (outputs, inputs) and of bases of the projectors (2(k-1), channels, half).

    The projectors act on the side with more channels: on the inputs, or through the transpose on the outputs.
    """
    if matrix.shape[0] > matrix.shape[1]:
        return compose(matrix.mT, halves).transpose(0, 1)
    kernel = matrix[None, None]  # (rows, columns, outputs, inputs): products act on the last dimension
    for number, half in enumerate(halves):
        kernel = _append(kernel, half, dim=number % 2)
    return kernel.permute(2, 3, 0, 1).contiguous()


def _append(kernel: Tensor, half: Tensor, *, dim: int) -> Tensor:
    """The block convolution with (P, I - P) along a dimension, P projecting on the columns of `half`."""
    empty = torch.zeros_like(kernel.narrow(dim, 0, 1))
    here, before = torch.cat((kernel, empty), dim), torch.cat((empty, kernel), dim)
    return before + (here - before) @ half @ half.mT


def margins(kernel: int) -> tuple[int, int]:
    """Cyclic padding before and after; even kernels have one less after."""
    return kernel // 2, (kernel - 1) // 2


def wrap(x: Tensor, kernel: int) -> Tensor:
    """Images with cyclic margins, so that a convolution keeps their size; they may be wider than the images."""
    before, after = margins(kernel)
    if max(before, after) <= min(x.shape[-2:]):
        return F.pad(x, (before, after, before, after), mode="circular") if kernel > 1 else x
    for dim in (-2, -1):
        places = torch.arange(-before, x.shape[dim] + after, device=x.device) % x.shape[dim]
        x = x.index_select(dim, places)
    return x


class Downsampling(nn.Module):
    """Every 2x2 patch becomes four channels: half the height and width, all values kept.

    An odd side gets a row or column of zeros first, which keeps the norm as well.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(N, 4 C, H/2, W/2), rounded up."""
        height, width = x.shape[-2:]
        if height % 2 or width % 2:  # padding by nothing would copy
            x = F.pad(x, (0, width % 2, 0, height % 2))
        return F.pixel_unshuffle(x, 2)
