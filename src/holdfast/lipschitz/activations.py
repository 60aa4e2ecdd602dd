r"""Activations that keep the norm of gradients: their Jacobian is orthogonal everywhere, unlike that of ReLU.

Reference:
    Anil, Lucas, Grosse, Sorting Out Lipschitz Function Approximation, ICML 2019, arXiv:1811.05381 (GroupSort).
    Singla, Singla, Feizi, Improved Deterministic l2 Robustness on CIFAR-10 and CIFAR-100, ICLR 2022, arXiv:2108.04062
    (Householder).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class GroupSort(nn.Module):
    """Sorts neighbouring channels within groups, ascending; channels beyond the last whole group stay.

    Args:
        size: channels of a group; 2 is MaxMin.
    """

    def __init__(self, size: int = 2) -> None:
        super().__init__()
        if size < 2:
            raise ValueError(f"size must be at least 2, got {size}")
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """Shape of `x`, (N, C, ...)."""
        groups, rest = _groups(x, self.size)
        ordered = torch.stack((groups.amin(2), groups.amax(2)), 2) if self.size == 2 else groups.sort(2).values
        return torch.cat((ordered.flatten(1, 2), rest), 1)

    def extra_repr(self) -> str:
        """Its size."""
        return f"size={self.size}"


class Householder(nn.Module):
    r"""Reflects pairs of channels that lie on the far side of a line through the origin, whose angle is learnt.

    .. math::
        z \mapsto z \ \text{ if } v^\top z > 0, \quad z - 2 v v^\top z \ \text{ else}, \qquad
        v = (\sin\tfrac\theta2, -\cos\tfrac\theta2)

    It starts at :math:`\theta = \pi/2`, where it puts the larger value of a pair first.

    Args:
        channels: of the input; with an odd number the last one stays.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.angle = nn.Parameter(torch.full((channels // 2,), math.pi / 2))

    def forward(self, x: Tensor) -> Tensor:
        """Shape of `x`, (N, C, ...)."""
        pairs, rest = _groups(x, 2)
        angle = (self.angle / 2).view(-1, *[1] * (x.dim() - 2))
        line = torch.stack((angle.sin(), -angle.cos()))  # (2, C/2, 1, ...)
        across = (pairs * line.transpose(0, 1)).sum(2, keepdim=True)
        reflected = pairs - 2 * across.clamp(max=0) * line.transpose(0, 1)
        return torch.cat((reflected.flatten(1, 2), rest), 1)


def _groups(x: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Channels in groups, (N, C/size, size, ...), and the channels left over."""
    whole = x.shape[1] // size * size
    return x[:, :whole].reshape(len(x), -1, size, *x.shape[2:]), x[:, whole:]
