"""Random sizes and places of an image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from holdfast.attacks.stages.stage import Climb, Slope
from holdfast.rng import Streams


@dataclass(frozen=True, kw_only=True)
class InputDiversity:
    r"""The slope through a random change of size and place, drawn anew for each example and step.

    .. math:: T^\top \nabla\ell(T z), \qquad T z = A z B^\top

    With probability :math:`p` the image is resized and set into a frame of zeros at a random place; :math:`A` and
    :math:`B` do this to its columns and rows. With a `rate` below 1 it shrinks, at most to this share of its side, and
    the frame has the size of the image. With one above 1 it grows, at most to this multiple, the frame has this size,
    and is then shrunk to that of the image. Rates other than 1 change the size by at least one pixel.

    Args:
        rate: the smallest, or the largest, side in sides of the image.
        probability: :math:`p`.

    Reference:
        Xie et al., Improving Transferability of Adversarial Examples with Input Diversity, CVPR 2019, arXiv:1803.06978.
        Differs: public code draws once for a batch, so that its results depend on the batch, and never puts the image
        at the lower or right edge.
    """

    rate: float = 0.9
    probability: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 2 or not 0 <= self.probability <= 1:
            raise ValueError(
                f"rate must lie in (0, 2] and probability in [0, 1], got {self.rate} and {self.probability}"
            )

    def __call__(self, slope: Slope, climb: Climb, rng: Streams) -> Slope:
        """The slope of the changed images, brought back."""

        def through(z: Tensor) -> Tensor:
            planes = as_planes(z)
            rows, columns = self._draw(planes, rng)
            changed = slope((rows @ planes @ columns.mT).view_as(z))
            return (rows.mT @ as_planes(changed) @ columns).view_as(z)

        return through

    def _draw(self, planes: Tensor, rng: Streams) -> tuple[Tensor, Tensor]:
        """A and B of each example, (N, 1, H, H) and (N, 1, W, W)."""
        changed, size, down, right = rng.uniform(torch.empty(len(planes), 4, dtype=torch.float64)).unbind(1)
        chosen = (changed < self.probability).tolist()
        return (
            self._maps(planes, planes.shape[2], chosen, size.tolist(), down.tolist()),
            self._maps(planes, planes.shape[3], chosen, size.tolist(), right.tolist()),
        )

    def _maps(self, like: Tensor, side: int, chosen: list[bool], sizes: list[float], places: list[float]) -> Tensor:
        """The change of one side of each example, as its draws say."""
        low, high = sorted((side, resized_side(side, self.rate)))
        frame = high
        maps = []
        for change, size, place in zip(chosen, sizes, places, strict=True):
            inner = low + int(size * (high - low))
            start = int(place * (frame - inner + 1))
            maps.append(_framed(side, inner, start, frame) if change else _framed(side, side, 0, side))
        return torch.stack(maps).to(like)[:, None] if maps else like.new_zeros(0, 1, side, side)


def resized_side(side: int, rate: float) -> int:
    """The side times the rate, rounded down; where that would change nothing, by one pixel, as on small images."""
    if side == 1 or rate == 1:
        return side
    return max(side + 1, int(side * rate)) if rate > 1 else max(1, int(side * rate))


def as_planes(z: Tensor) -> Tensor:
    """A batch as planes, (N, C, H, W); a vector is one line."""
    return z if z.dim() == 4 else z.reshape(len(z), 1, math.prod(z.shape[1:-1]), z.shape[-1])


@lru_cache(maxsize=4096)
def _framed(side: int, inner: int, start: int, frame: int) -> Tensor:
    """Resize a side to `inner`, set it into a frame, and resize the frame to the side, (side, side)."""
    padded = torch.zeros(frame, side, dtype=torch.float64)
    padded[start : start + inner] = interpolation(side, inner)
    return interpolation(frame, side) @ padded


def interpolation(size: int, new: int) -> Tensor:
    """The matrix that resizes a line by linear interpolation between the centres of its pixels, (new, size)."""
    centres = ((torch.arange(new, dtype=torch.float64) + 0.5) * size / new - 0.5).clamp(0, size - 1)
    distance = (centres[:, None] - torch.arange(size, dtype=torch.float64)).abs()
    return (1 - distance).clamp(min=0)
