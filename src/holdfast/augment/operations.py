r"""Simple changes of images, each with one amount per image, and their use with a different one for every image.

An operation is a function of images (n, C, H, W) in [0, 1] and amounts (n,); the result lies in [0, 1]. Operations that
Pillow has follow it, with its 8-bit look-up tables where the operation is a table (`equalize`, `posterize`) and real
numbers elsewhere. Pixels from outside an image are black.

Results do not depend on which images are in a batch, to the bit: amounts reach pixels through element-wise arithmetic
only, since a rounding that differs would become a whole grey level in `posterize` and `equalize`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.rng import Streams
from holdfast.threat.shape import per_example

Operation = Callable[[Tensor, Tensor], Tensor]
"""Images (n, C, H, W) and amounts (n,) to images."""


def identity(x: Tensor, amount: Tensor) -> Tensor:
    """The images as they are."""
    return x


def autocontrast(x: Tensor, amount: Tensor) -> Tensor:
    r"""Stretch each channel to the whole range, :math:`(x - \min x) / (\max x - \min x)`; flat channels stay."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    flat = high <= low
    return torch.where(flat, x, (x - low) / (high - low).masked_fill(flat, 1)).clamp_(0, 1)


def equalize(x: Tensor, amount: Tensor) -> Tensor:
    """Make the grey levels of each channel about equally frequent.

    Level v becomes (step // 2 + pixels below v) // step with step = (pixels - those of the highest level) // 255, as in
    Pillow. Images of fewer than 256 pixels, which Pillow leaves alone, take the exact quotient as their step.
    """
    levels = _levels(x).flatten(2)  # (n, C, H W)
    counts = torch.zeros(*levels.shape[:2], 256, dtype=torch.int64, device=x.device)
    counts.scatter_add_(2, levels, torch.ones_like(levels))
    pixels = levels.shape[2]
    highest = counts.gather(2, levels.amax(2, keepdim=True))
    rest = pixels - highest  # (n, C, 1)
    below = counts.cumsum(2) - counts
    step = rest // 255
    whole = (step // 2 + below) // step.clamp_min(1)
    exact = (255 * below) // rest.clamp_min(1)
    table = torch.where(step > 0, whole, exact if pixels < 256 else torch.arange(256, device=x.device)).clamp_max_(255)
    table = torch.where(rest > 0, table, torch.arange(256, device=x.device))
    return table.gather(2, levels).view(x.shape).to(x) / 255


def posterize(x: Tensor, bits: Tensor) -> Tensor:
    """Keep that many leading bits of the 8-bit values, rounded up to a whole number."""
    lost = 2 ** (8 - bits.ceil().clamp(0, 8).to(torch.int64))
    lost = per_example(lost, x)
    return (_levels(x) // lost * lost).to(x) / 255


def solarize(x: Tensor, threshold: Tensor) -> Tensor:
    """Invert values from the threshold on."""
    return torch.where(x >= per_example(threshold, x), 1 - x, x)


def brightness(x: Tensor, factor: Tensor) -> Tensor:
    """Mix with black: 0 is black, 1 the image, above 1 brighter."""
    return (per_example(factor, x) * x).clamp_(0, 1)


def contrast(x: Tensor, factor: Tensor) -> Tensor:
    """Mix with the mean grey of the image."""
    mean = grey(x).flatten(1).mean(1)
    return _mixed(per_example(mean, x), x, factor)


def colour(x: Tensor, factor: Tensor) -> Tensor:
    """Mix with the grey image; images of one channel stay."""
    return x if x.shape[1] == 1 else _mixed(grey(x), x, factor)


def sharpness(x: Tensor, factor: Tensor) -> Tensor:
    """Mix with a blurred image; the outermost pixels stay."""
    if min(x.shape[2:]) < 3:
        return x
    rows = x[:, :, :-2] + x[:, :, 1:-1] + x[:, :, 2:]
    blurred, inner = x.clone(), (..., slice(1, -1), slice(1, -1))
    # Sums of shifted images, since the rounding of a convolution may depend on the batch.
    blurred[inner] = (rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * x[inner]) / 13
    return _mixed(blurred, x, factor)


def rotate(x: Tensor, degrees: Tensor) -> Tensor:
    """Turn counter-clockwise about the centre."""
    angle = torch.deg2rad(degrees.double())
    cos, sin = angle.cos(), angle.sin()
    middle_x, middle_y = x.shape[3] / 2, x.shape[2] / 2
    zero_x = middle_x - cos * middle_x + sin * middle_y
    zero_y = middle_y - sin * middle_x - cos * middle_y
    return affine(x, torch.stack((cos, -sin, zero_x, sin, cos, zero_y), dim=1))


def shear_x(x: Tensor, slope: Tensor) -> Tensor:
    """Move each row by its distance from the top times the slope."""
    return affine(x, _matrix(slope, xy=slope))


def shear_y(x: Tensor, slope: Tensor) -> Tensor:
    """Move each column by its distance from the left times the slope."""
    return affine(x, _matrix(slope, yx=slope))


def translate_x(x: Tensor, share: Tensor) -> Tensor:
    """Move along the rows by a share of the width."""
    return affine(x, _matrix(share, x0=share * x.shape[3]))


def translate_y(x: Tensor, share: Tensor) -> Tensor:
    """Move along the columns by a share of the height."""
    return affine(x, _matrix(share, y0=share * x.shape[2]))


def affine(x: Tensor, matrix: Tensor) -> Tensor:
    r"""The pixel at :math:`(u, v)` comes from :math:`(a u + b v + c, d u + e v + f)`, bilinear; black from outside.

    Coordinates count pixels from the upper left corner, so that the centre of the first pixel is (0.5, 0.5). Points
    within half a pixel of the border take the border's value, as in Pillow.

    Args:
        x: images (n, C, H, W).
        matrix: :math:`(a, b, c, d, e, f)` of each, (n, 6), in float64.
    """
    H, W = x.shape[2:]
    a, b, c, d, e, f = (column[:, None, None] for column in matrix.to(torch.float64).unbind(1))
    u = torch.arange(W, device=x.device, dtype=torch.float64) + 0.5
    v = (torch.arange(H, device=x.device, dtype=torch.float64) + 0.5)[:, None]
    from_x, from_y = a * u + b * v + c, d * u + e * v + f  # (n, H, W)
    inside = (from_x >= 0) & (from_x < W) & (from_y >= 0) & (from_y < H)
    grid = torch.stack((from_x * (2 / W) - 1, from_y * (2 / H) - 1), dim=3).to(x)
    taken = F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return (taken * inside[:, None]).clamp_(0, 1)


def grey(x: Tensor) -> Tensor:
    """Luminance of three channels (the weights of Pillow's), the mean of any other number; (n, 1, H, W)."""
    if x.shape[1] != 3:
        return x.mean(1, keepdim=True)
    return 0.299 * x[:, :1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:]


OPERATIONS: dict[str, Operation] = {
    "identity": identity,
    "autocontrast": autocontrast,
    "equalize": equalize,
    "posterize": posterize,
    "rotate": rotate,
    "solarize": solarize,
    "shear_x": shear_x,
    "shear_y": shear_y,
    "translate_x": translate_x,
    "translate_y": translate_y,
    "colour": colour,
    "contrast": contrast,
    "brightness": brightness,
    "sharpness": sharpness,
}
"""Operations by name; the first ten share nothing with the common corruptions."""


@dataclass(frozen=True)
class Scale:
    """Linear map of a strength in [0, 1] to an operation's amount, from `low` to `high`.

    Args:
        low: amount at strength 0.
        high: amount at strength 1.
        signed: whether half of the images take the amount on the other side of `low`.
    """

    low: float = 0.0
    high: float = 0.0
    signed: bool = False

    def amount(self, strength: Tensor, negative: Tensor) -> Tensor:
        """Amounts (n,) of strengths (n,); `negative` marks the images with the other side of a signed amount."""
        way = strength * (self.high - self.low)
        return self.low + (torch.where(negative, -way, way) if self.signed else way)


@dataclass(frozen=True)
class Drawn:
    """Random choices of operations for images.

    Args:
        choice: position of the operation among those to choose from, (n,) or (n, count).
        strength: in [0, 1], of the same shape.
        negative: whether to take the other side of a signed amount, of the same shape.
    """

    choice: Tensor
    strength: Tensor
    negative: Tensor


def apply_each(x: Tensor, scales: Mapping[str, Scale], drawn: Drawn) -> Tensor:
    """Let every image take its own operation; those that take the same one go through it together.

    Args:
        x: images (n, C, H, W).
        scales: the operations to choose from, each with its amounts.
        drawn: the operation of each image.
    """
    z = x.clone()
    for number, (name, scale) in enumerate(scales.items()):
        rows = (drawn.choice == number).nonzero()[:, 0]
        if len(rows) and name != "identity":
            z[rows] = OPERATIONS[name](x[rows], scale.amount(drawn.strength[rows], drawn.negative[rows]))
    return z


def draw(rng: Streams, count: int, operations: int, like: Tensor) -> Drawn:
    """Choices, uniform strengths in [0, 1) and signs for `count` operations of every image, each (N, count)."""
    choice = rng.integers(operations, (count,), like.device)
    strength = rng.uniform(like.new_empty(len(like), count))
    return Drawn(choice, strength, rng.integers(2, (count,), like.device) == 1)


def _levels(x: Tensor) -> Tensor:
    """The nearest 8-bit values, int64."""
    return (x * 255).round().to(torch.int64)


def _mixed(other: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    return (other + per_example(factor, x) * (x - other)).clamp_(0, 1)


def _matrix(
    like: Tensor, *, xy: Tensor | float = 0, x0: Tensor | float = 0, yx: Tensor | float = 0, y0: Tensor | float = 0
) -> Tensor:
    """Rows (1, xy, x0, yx, 1, y0), in float64."""
    entries: Sequence[Tensor | float] = (1, xy, x0, yx, 1, y0)
    return torch.stack([torch.zeros_like(like, dtype=torch.float64) + entry for entry in entries], dim=1)
