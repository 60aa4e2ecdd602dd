"""Linear filters of image planes: Gaussian smoothing, correlation with a kernel per image, enlargement of the centre.

Most work along lines is done with the lines in front, (lines, N, C, length): then a shifted line is a slice of memory.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from scipy.fft import next_fast_len
from torch import Tensor

Border = Literal["nearest", "reflect"]

NARROW = 12
"""Up to this radius in pixels a sum of shifted lines is faster than a product of matrices."""


def rows_first(x: Tensor) -> Tensor:
    """(N, C, H, W) as (H, N, C, W)."""
    return x.permute(2, 0, 1, 3).contiguous()


def turned(lines: Tensor) -> Tensor:
    """(H, N, C, W) as (W, N, C, H), and back."""
    return lines.transpose(0, 3).contiguous()


def columns_last(lines: Tensor) -> Tensor:
    """(W, N, C, H) as (N, C, H, W)."""
    return lines.permute(1, 2, 3, 0).contiguous()


def smooth(x: Tensor, sigma: float, *, truncate: float = 4.0, border: Border = "nearest") -> Tensor:
    r"""Gaussian smoothing of every plane: :math:`G_h x G_w^T`.

    Args:
        x: planes, (N, C, H, W).
        sigma: standard deviation in pixels; 0 changes nothing.
        truncate: the kernel ends at this many standard deviations, rounded to a pixel.
        border: values outside: the nearest pixel, or the image mirrored with its edge repeated.
    """
    radius = int(truncate * sigma + 0.5)
    if radius == 0:
        return x
    if radius <= NARROW:
        return columns_last(
            _along_lines(turned(_along_lines(rows_first(x), sigma, radius, border)), sigma, radius, border)
        )
    rows, columns = (gaussian_matrix(size, sigma, radius, border).to(x) for size in x.shape[-2:])
    planes = x.reshape(-1, *x.shape[-2:])
    # One product per plane, so that no plane's rounding depends on the others.
    half = torch.bmm(rows.expand(len(planes), -1, -1), planes)
    return torch.bmm(half, columns.T.expand(len(planes), -1, -1)).view(x.shape)


def _along_lines(lines: Tensor, sigma: float, radius: int, border: Border) -> Tensor:
    """Weighted sum of each line and its neighbours."""
    size = len(lines)
    wider = lines.index_select(
        0, torch.from_numpy(_outside(np.arange(-radius, size + radius), size, border)).to(lines.device)
    )
    weight = _gaussian(sigma, radius).tolist()
    z: Tensor = wider[:size] * weight[0]
    for offset in range(1, 2 * radius + 1):
        z.add_(wider[offset : offset + size], alpha=weight[offset])
    return z


def _gaussian(sigma: float, radius: int) -> np.ndarray:
    weight = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    return np.asarray(weight / weight.sum())


def _outside(place: np.ndarray, size: int, border: Border) -> np.ndarray:
    """The pixel that is used for each place, inside the line or not."""
    if border == "nearest":
        return np.asarray(place.clip(0, size - 1))
    place = place % (2 * size)
    return np.asarray(np.minimum(place, 2 * size - 1 - place))


@lru_cache(maxsize=64)
def gaussian_matrix(size: int, sigma: float, radius: int, border: Border) -> Tensor:
    """Row i has the weights of the pixels that are summed to pixel i, (size, size), float64."""
    own = np.arange(size)[:, None]
    source = _outside(own + np.arange(-radius, radius + 1), size, border)
    matrix = np.zeros((size, size))
    np.add.at(matrix, (own, source), _gaussian(sigma, radius))
    return torch.from_numpy(matrix)


def correlate(x: Tensor, kernel: Tensor) -> Tensor:
    """Correlation where the kernel lies inside: (N, C, H, W) with (N or 1, 1, h, w) to (N, C, H-h+1, W-w+1).

    By Fourier transform, arranged so that an image's last bits do not depend on the others of its batch: a single plane
    is transformed beside a copy of itself, since libraries treat it differently from several, and planes have a
    multiple of eight rows, so that products run over whole vectors of the processor.
    """
    if len(x) * x.shape[1] == 1:
        return correlate(x.repeat(2, 1, 1, 1), kernel.repeat(2, 1, 1, 1))[:1]
    height, width = x.shape[-2] - kernel.shape[-2] + 1, x.shape[-1] - kernel.shape[-1] + 1
    size = [8 * next_fast_len(math.ceil(x.shape[-2] / 8)), next_fast_len(x.shape[-1], real=True)]
    spectrum: Tensor = torch.fft.rfft2(x, s=size)
    kernel_spectrum: Tensor = torch.fft.rfft2(kernel.repeat(2, 1, 1, 1) if len(kernel) == 1 else kernel, s=size)
    z: Tensor = torch.fft.irfft2(spectrum.mul_(kernel_spectrum[: len(kernel)].conj()), s=size)
    return z[..., :height, :width]


def enlarge_centre(x: Tensor, factor: float) -> Tensor:
    """The central part of every plane, enlarged by linear interpolation to the plane's size; factor at least 1."""
    return columns_last(enlarged_lines(turned(enlarged_lines(rows_first(x), factor)), factor))


def enlarged_lines(lines: Tensor, factor: float) -> Tensor:
    """The same along the first axis alone."""
    lower, upper, share = (part.to(lines.device) for part in _enlargement(len(lines), factor))
    start = lines.index_select(0, lower)
    # Not torch.lerp, whose last bit depends on the place in memory.
    return lines.index_select(0, upper).sub_(start).mul_(share.to(lines)[:, None, None, None]).add_(start)


@lru_cache(maxsize=256)
def _enlargement(size: int, factor: float) -> tuple[Tensor, Tensor, Tensor]:
    """Pixels between which each pixel of the enlarged line lies, and the share of the second.

    The line's central ceil(size / factor) pixels become round(that * factor) with both ends kept, of which the middle
    is cut out.
    """
    kept = math.ceil(size / factor)
    made = round(kept * factor)
    step = (kept - 1) / max(made - 1, 1)
    place = (torch.arange(size, dtype=torch.float64) + (made - size) // 2) * step
    lower = place.floor().clamp_(max=kept - 1)
    upper = (lower + 1).clamp_(max=kept - 1)
    start = (size - kept) // 2
    return lower.long() + start, upper.long() + start, place - lower
