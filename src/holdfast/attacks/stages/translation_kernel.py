"""A kernel over the slope, in place of the slopes of moved images."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.stages.input_diversity import as_planes
from holdfast.attacks.stages.stage import Climb, Slope
from holdfast.errors import RecipeError
from holdfast.rng import Streams

LARGEST, FULL_SIDE = 15, 224
"""The published kernel, and the images that it was published for."""


@dataclass(frozen=True, kw_only=True)
class TranslationKernel:
    r"""The slope, averaged over moves of the image by a Gaussian kernel.

    .. math:: (W * \nabla\ell)(z), \qquad W_{ij} = k_i k_j, \quad
        k_i \propto \exp\bigl(-\tfrac12 (2 d\, i / (s - 1))^2\bigr), \quad |i| \le \tfrac{s - 1}2

    with zeros beyond the edge of the image, channel by channel, whatever their number.

    Args:
        size: :math:`s`, an odd number of pixels; None for 15 on images of 224 pixels or more, and smaller with the root
            of the side on smaller ones: 5 for 28 and 32, 9 for 64 pixels. 15 pixels of 28 blur away what is attacked.
        deviations: :math:`d`, standard deviations from the middle of the kernel to its edge.

    Reference:
        Dong et al., Evading Defenses to Transferable Adversarial Examples by Translation-Invariant Attacks, CVPR 2019,
        arXiv:1904.02884, equation 7.
    """

    size: int | None = None
    deviations: float = 3.0

    def __post_init__(self) -> None:
        if self.size is not None and (self.size < 1 or self.size % 2 == 0):
            raise ValueError(f"size must be odd, got {self.size}")
        if not 0 < self.deviations < math.inf:
            raise ValueError(f"deviations must be positive and finite, got {self.deviations}")

    def __call__(self, slope: Slope, climb: Climb, rng: Streams) -> Slope:
        """The averaged slope."""
        sides = [side for side in as_planes(climb.z).shape[2:] if side > 1]
        size = self.size if self.size is not None else usual_size(min(sides, default=1))
        if self.size is not None and sides and size > min(sides):
            raise RecipeError(
                f"translation_kernel: expected a size of at most {min(sides)}, the side of the images; got {size}; "
                f"without a size it is {usual_size(min(sides))}"
            )
        kernel = gaussian(size, self.deviations).to(climb.z)
        return lambda z: blurred(slope(z), kernel)


def usual_size(side: int) -> int:
    """The size of the kernel for images of this side: odd, the root of it, 15 from 224 pixels on."""
    exact = LARGEST * math.sqrt(side / FULL_SIDE)
    return min(LARGEST, 2 * math.floor((exact - 1) / 2 + 0.5) + 1) if exact > 1 else 1


def gaussian(size: int, deviations: float) -> Tensor:
    """Weights along one side, (size,), with sum 1."""
    places = torch.linspace(-deviations, deviations, size, dtype=torch.float64) if size > 1 else torch.zeros(1)
    weights = torch.exp(-(places.double() ** 2) / 2)
    return weights / weights.sum()


def blurred(slope: Tensor, kernel: Tensor) -> Tensor:
    """Each plane convolved with the kernel along both sides; a side of one pixel is left alone."""
    planes = as_planes(slope)
    flat, half = planes.reshape(-1, 1, *planes.shape[2:]), len(kernel) // 2
    if planes.shape[2] > 1:
        flat = F.conv2d(flat, kernel.view(1, 1, -1, 1), padding=(half, 0))
    if planes.shape[3] > 1:
        flat = F.conv2d(flat, kernel.view(1, 1, 1, -1), padding=(0, half))
    return flat.reshape(slope.shape)
