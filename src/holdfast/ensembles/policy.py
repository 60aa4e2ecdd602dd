"""A small network that decides from the first feature maps of two classifiers which of them to trust."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LIMIT = 14.0
"""Logarithms of strengths are clipped to this size, so that their exponentials stay finite."""

WIDTHS = (128, 256, 512)

WIDEST = 64.0
"""Largest factor on the widths; beyond it, a single layer has a billion weights."""


class Policy(nn.Module):
    r"""First feature maps of :math:`g` and :math:`h` to :math:`\beta = \log\alpha`, cut to [-14, 14].

    For each classifier three blocks of a 3x3 convolution, 2x2 maximum, ReLU and batch normalisation, then the mean over
    places; both vectors go through a linear layer, ReLU and batch normalisation to one number. Maps may have any size
    and number; vectors count as maps of one pixel.

    Args:
        channels: of the first maps of the two classifiers.
        width: factor on the published widths 128, 256, 512 and 512.

    Reference:
        Bai, Anderson, Sojoudi, Avoiding the Accuracy-Robustness Trade-off of Classifiers via Local Adaptive Smoothing,
        figure 1 and section 6.3.
    """

    def __init__(self, channels: tuple[int, int], *, width: float = 1.0) -> None:
        super().__init__()
        check_width(width)
        sizes = [max(1, round(width * size)) for size in WIDTHS]
        self.towers = nn.ModuleList(_tower(count, sizes) for count in channels)
        self.head = nn.Sequential(
            nn.Linear(2 * sizes[-1], sizes[-1]), nn.ReLU(), nn.BatchNorm1d(sizes[-1]), nn.Linear(sizes[-1], 1)
        )

    def forward(self, of_standard: Tensor, of_robust: Tensor) -> Tensor:
        r""":math:`\beta` of each image, (N,)."""
        maps = (as_maps(of_standard), as_maps(of_robust))
        vectors = [tower(each).mean((2, 3)) for tower, each in zip(self.towers, maps, strict=True)]
        beta: Tensor = self.head(torch.cat(vectors, dim=1))[:, 0]
        return beta.clamp(-LIMIT, LIMIT)


def _tower(channels: int, sizes: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in zip([channels, *sizes[:-1]], sizes, strict=True):
        # A maximum of the pixels that exist: maps of one pixel stay as they are.
        pool = nn.MaxPool2d(2, ceil_mode=True)
        layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), pool, nn.ReLU(), nn.BatchNorm2d(after)]
    return nn.Sequential(*layers)


def as_maps(z: Tensor) -> Tensor:
    """Maps as they are, vectors as maps of one pixel, (N, C, H, W)."""
    return z if z.dim() == 4 else z.flatten(1)[:, :, None, None]


def check_width(width: float) -> None:
    """Refuse an invalid factor on the widths."""
    if not 0 < width <= WIDEST:
        raise ValueError(f"policy: width must be positive and at most {WIDEST:g}, got {width}")
