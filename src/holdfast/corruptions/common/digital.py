"""Contrast, saturation, elastic distortion, pixelation, JPEG."""

from __future__ import annotations

import io
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from holdfast.corruptions.common.draws import symmetric
from holdfast.corruptions.common.filters import columns_last, smooth
from holdfast.corruptions.common.tables import Parameters
from holdfast.rng import Streams


def contrast(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    """Values drawn to the mean of their channel; parameters: the factor by which distances from it shrink."""
    (factor,) = parameters
    return x.mean((2, 3), keepdim=True).lerp(x, factor).clamp_(0, 1)


def saturate(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    r"""The saturation :math:`s` of hue, saturation and value becomes :math:`\mathrm{clip}(a s + b)`.

    With hue and value :math:`v` fixed a channel becomes :math:`v - (v - x_i)\, s' / s`. Grey has no hue and counts as
    red, as in the reference. Images of one channel have no saturation and stay as they are.

    Parameters: :math:`a`, :math:`b`.
    """
    if x.shape[1] == 1:
        return x.clone()
    factor, offset = parameters
    value, darkest = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    spread = value - darkest
    saturation = spread / value.clamp(min=torch.finfo(x.dtype).tiny)
    target = saturation.mul(factor).add_(offset).clamp_(0, 1)
    towards = torch.where(spread > 0, (value - x) / spread, x.new_tensor([0, 1, 1])[:, None, None])
    return (value - towards * target * value).clamp_(0, 1)


def elastic_transform(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    """A random affine map, then a random displacement of every pixel; both by linear interpolation.

    The map moves three points, a third of the side from the centre, by uniform numbers. The displacements are uniform
    noise, smoothed and multiplied. Outside, the image is mirrored.

    Parameters: factor and smoothing of the displacements, reach of the points' movement; all in pixels.
    """
    factor, sigma, reach = parameters
    z = x
    if reach > 0:
        z = F.grid_sample(z, _affine_grid(z, reach, rng), padding_mode="reflection", align_corners=True)
    if factor > 0:
        noise = symmetric(rng, x.new_empty(len(x), 2, *x.shape[-2:]))
        shift = smooth(noise, sigma, truncate=3, border="reflect").mul_(factor)
        z = F.grid_sample(z, _displaced_grid(shift), padding_mode="reflection", align_corners=False)
    return z.clamp(0, 1)


def _affine_grid(x: Tensor, reach: float, rng: Streams) -> Tensor:
    """The place from which each pixel comes, (N, H, W, 2), corners at ±1: the map that moves the points back."""
    height, width = x.shape[-2:]
    middle_x, middle_y, third = width // 2, height // 2, min(height, width) // 3
    points = x.new_tensor(
        [
            [middle_x + third, middle_y + third, 1],
            [middle_x + third, middle_y - third, 1],
            [middle_x - third, middle_y - third, 1],
        ]
    ).double()
    moved = points.repeat(len(x), 1, 1)
    moved[..., :2] += symmetric(rng, x.new_empty(len(x), 3, 2)) * reach
    # Points are rows, so that the map is the right factor: moved @ back = points.
    back = torch.linalg.solve(moved, points.expand_as(moved))[..., :2].to(x)[:, None, None]
    columns, rows = torch.arange(width).to(x), torch.arange(height).to(x)[:, None]
    place: Tensor = columns[..., None] * back[..., 0, :] + rows[..., None] * back[..., 1, :] + back[..., 2, :]
    return place * (2 / (x.new_tensor([width, height]) - 1)) - 1


def _displaced_grid(shift: Tensor) -> Tensor:
    """Places that displacements (N, 2, H, W) in pixels take pixels from, (N, H, W, 2), outer edges at ±1."""
    height, width = shift.shape[-2:]
    columns, rows = torch.arange(width).to(shift), torch.arange(height).to(shift)[:, None]
    across = (columns + shift[:, 0] + 0.5).mul_(2 / width).sub_(1)
    down = (rows + shift[:, 1] + 0.5).mul_(2 / height).sub_(1)
    return torch.stack((across, down), dim=-1)


def pixelate(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    """Shrunk by means over boxes of pixels, then enlarged by repeating them; parameters: share of the side kept."""
    (share,) = parameters
    (rows, shown_rows), (columns, shown_columns) = (boxes(size, share) for size in x.shape[-2:])
    small = _box_means(_box_means(x, 2, rows).permute(3, 0, 1, 2).contiguous(), 0, columns)
    wide = columns_last(small.index_select(0, shown_columns.to(x.device)))
    return wide.index_select(2, shown_rows.to(x.device))


def _box_means(x: Tensor, axis: int, boxes: tuple[Tensor, Tensor]) -> Tensor:
    """Means over boxes of consecutive lines along an axis."""
    start, size = (part.to(x.device) for part in boxes)
    shape = [-1 if axis == place else 1 for place in range(4)]
    total = x.index_select(axis, start).mul_((1 / size).to(x).view(shape))
    for further in range(1, int(size.max())):
        more = x.index_select(axis, (start + further).clamp_(max=x.shape[axis] - 1))
        total.addcmul_(more, ((size > further) / size).to(x).view(shape))
    return total


@lru_cache(maxsize=64)
def boxes(size: int, share: float) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """First line and number of lines of each box, and the box that each line shows.

    A box holds the lines whose middle lies in it, as in Pillow, so that sizes differ by one where they do not divide.
    """
    fewer = max(1, int(size * share))
    scale = size / fewer
    edges = np.floor(np.arange(fewer + 1) * scale + 0.5).astype(np.int64)
    shown = np.floor((np.arange(size) + 0.5) / scale).astype(np.int64).clip(0, fewer - 1)
    return (torch.from_numpy(edges[:-1]), torch.from_numpy(np.diff(edges))), torch.from_numpy(shown)


def jpeg_compression(x: Tensor, parameters: Parameters, rng: Streams) -> Tensor:
    """Written as JPEG and read again, by Pillow's encoder on the CPU; parameters: quality.

    JPEG has 8 bits only: values are rounded to them before, and the result has 8 bits, too. Colour is stored at half
    the resolution (4:2:0, the encoder's default), images of one channel as grey.
    """
    (quality,) = parameters
    planes = x.mul(255).round_().cpu().numpy().astype(np.uint8)  # quicker in numpy than in torch
    read = np.stack([_through_jpeg(image, int(quality)) for image in planes])
    return torch.from_numpy(read).to(x.device).permute(0, 3, 1, 2).contiguous().to(x.dtype).div_(255)


def _through_jpeg(planes: np.ndarray, quality: int) -> np.ndarray:
    """(C, H, W) to (H, W, C), both of 8 bits."""
    file = io.BytesIO()
    Image.fromarray(np.stack(list(planes), axis=-1) if len(planes) == 3 else planes[0]).save(
        file, "JPEG", quality=quality
    )
    return np.asarray(Image.open(file, formats=("JPEG",))).reshape(*planes.shape[1:], len(planes))
