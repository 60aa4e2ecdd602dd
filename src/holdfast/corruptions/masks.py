"""Hidden parts of an image: patches, stripes, and lost detail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.rng import Streams, streams


@dataclass(frozen=True, kw_only=True)
class Occlusion:
    """Square patches at random places, which may overlap but do not leave the image.

    Args:
        count: number of patches.
        size: height and width of a patch in pixels; one larger than the image covers its side.
        value: value of the patches.

    Reference:
        Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection,
        section 7: 20 patches of 70x70 on photographs of roads. With noise, the authors add the noise first, so that the
        patches stay black: `chain: {of: [gaussian_noise, occlusion]}`.
    """

    count: int = 20
    size: int
    value: float = 0.0

    def __post_init__(self) -> None:
        _check(self.count, self.size, "size", self.value)

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """Images with patches, (N, C, H, W)."""
        rng = streams(rng, x)
        rows, columns = (
            _covered(rng.split(name), x.shape[dim], self.count, self.size).to(x.device)
            for name, dim in (("rows", -2), ("columns", -1))
        )
        hidden = (rows[..., :, None] & columns[..., None, :]).any(1)
        return x.masked_fill(hidden[:, None], self.value)


@dataclass(frozen=True, kw_only=True)
class Stripes:
    """Vertical stripes at random places, which may overlap.

    Args:
        count: number of stripes.
        thickness: width of a stripe in pixels.
        value: value of the stripes.

    Reference:
        As for `Occlusion`: 10 stripes of thickness 6.
    """

    count: int = 10
    thickness: int
    value: float = 0.0

    def __post_init__(self) -> None:
        _check(self.count, self.thickness, "thickness", self.value)

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """Images with stripes, (N, C, H, W)."""
        hidden = _covered(streams(rng, x), x.shape[-1], self.count, self.thickness).any(1).to(x.device)
        return x.masked_fill(hidden[:, None, None], self.value)


@dataclass(frozen=True, kw_only=True)
class DownUp:
    """The image sampled down to fewer pixels and up to its size again, both by bilinear interpolation.

    Args:
        factor: by which height and width shrink; sizes are rounded down, and at least one pixel.
        antialias: average over all pixels that merge into one, with sizes rounded to the nearest whole number. False,
            as in the authors' code, interpolates between the pixels nearest to each sampling point: detail finer than
            the sampling becomes coarse patterns instead of disappearing.

    Reference:
        As for `Occlusion`: a factor of 3.
    """

    factor: float = 3.0
    antialias: bool = False

    former: ClassVar[dict[str, bool]] = {"antialias": True}

    def __post_init__(self) -> None:
        if not self.factor >= 1:
            raise ValueError(f"factor must be at least 1, got {self.factor}")

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """Images without fine detail, (N, C, H, W)."""
        whole = round if self.antialias else int
        height, width = x.shape[-2:]
        size = max(1, whole(height / self.factor)), max(1, whole(width / self.factor))
        small = F.adaptive_avg_pool2d(x, size) if self.antialias else _resized(x, size)
        return _resized(small, (height, width)).clamp(0, 1)


def _resized(x: Tensor, size: tuple[int, int]) -> Tensor:
    return F.interpolate(x, size, mode="bilinear", align_corners=False)


def _covered(rng: Streams, side: int, count: int, size: int) -> Tensor:
    """The pixels of a side that each of `count` pieces covers, (N, count, side)."""
    size = min(size, side)
    first = rng.integers(side - size + 1, (count,))[..., None]
    place = torch.arange(side)
    return (place >= first) & (place < first + size)


def _check(count: int, size: int, name: str, value: float) -> None:
    if count < 1 or size < 1:
        raise ValueError(f"count and {name} must be at least 1, got {count} and {size}")
    if not 0 <= value <= 1:
        raise ValueError(f"value must lie in [0, 1], got {value}")
