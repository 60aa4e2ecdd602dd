r"""Images and signals by frequency: the discrete cosine transform, masks of its coefficients, filters, Fourier waves.

The transform is the orthonormal DCT-II, along one dimension a product with

.. math:: C_{kj} = \sqrt{a_k / d}\,\cos\bigl(\tfrac{\pi}{d}(j + \tfrac12)k\bigr), \qquad a_0 = 1,\ a_{k>0} = 2

:math:`C` is orthogonal, so a plane :math:`x` goes to :math:`X = C x C^T` and comes back as :math:`x = C^T X C`, with a
matrix for the height and one for the width. (The inverse is sometimes printed as :math:`C X C^T`, which is wrong:
:math:`C` is not symmetric.)

Coefficients :math:`(i, j)` are ordered by their radius :math:`(i/H)^2 + (j/W)^2`, for squares the same as by
:math:`i^2 + j^2`; those of equal radius by their index :math:`iW + j`. A share is always that of the coefficients that
are *removed*.

Reference:
    Ma, Pan, Farahmand, Understanding the Robustness Difference between Stochastic Gradient Descent and Adaptive
    Gradient Methods, TMLR 2023, arXiv:2308.06703. Ma, Understanding Adversarial Robustness in Deep Learning, thesis,
    Toronto 2025, section 4.3 and appendix 4.C, where the mask printed for low-pass filters keeps the high frequencies
    and compares a square with a length; `low_pass_mask` is what it is meant to be. Yin et al., A Fourier Perspective on
    Model Robustness in Computer Vision, NeurIPS 2019, arXiv:1906.08988 (waves).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from holdfast.errors import DataError

Rule = Literal["rank", "radius"]
"""How a number of coefficients is chosen: exactly, by their rank in the radial order, or by published radii."""

RULES: tuple[Rule, ...] = get_args(Rule)

BAND_RADII = (10.7814, 15.3020, 19.0498, 22.0402, 24.7590, 27.2210, 29.4414, 31.5783, 34.7134)
"""Published limits of ten bands of images of 32x32 pixels."""

LEVELS = 2000
"""Steps in which the published search for the radius of a low-pass filter goes down from the length of the diagonal."""

LONGEST = 512
"""Sides up to which the transform is a product with a matrix that is kept; longer ones take the Fourier transform."""

GRID = 2.0**-32
"""Magnitudes that round to the same multiple of this are equal, so that rounding does not decide between them."""


def _kept(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Keep what a function makes as tensors of the CPU that autograd takes, whatever the mode of the first call."""

    @lru_cache(maxsize=64)
    @wraps(function)
    def made(*args: Any, **kwargs: Any) -> Tensor:
        with torch.device("cpu"), torch.inference_mode(mode=False):
            return function(*args, **kwargs)

    return made


def dct_matrix(size: int, like: Tensor) -> Tensor:
    """The orthogonal matrix C, (size, size), row k the k-th frequency; computed in float64, dtype as `like`."""
    return _dct_matrix(size).to(like, copy=True)


@_kept
def _dct_matrix(size: int) -> Tensor:
    k = torch.arange(size, dtype=torch.float64)[:, None]
    j = torch.arange(size, dtype=torch.float64)[None]
    cosine = torch.cos(math.pi / size * (j + 0.5) * k) * math.sqrt(2 / size)
    cosine[0] *= math.sqrt(0.5)
    return cosine


def dct_1d(x: Tensor) -> Tensor:
    """Coefficients of the last dimension."""
    size = x.shape[-1]
    if size <= LONGEST:
        return x @ _dct_matrix(size).to(x).mT
    order = torch.cat((x[..., ::2], x[..., 1::2].flip(-1)), dim=-1)
    coefficients: Tensor = (torch.fft.fft(order) * _turns(size, x)).real
    return coefficients


def inverse_dct_1d(coefficients: Tensor) -> Tensor:
    """The signals with these coefficients in the last dimension."""
    size = coefficients.shape[-1]
    if size <= LONGEST:
        return coefficients @ _dct_matrix(size).to(coefficients)
    mirrored = torch.cat((torch.zeros_like(coefficients[..., :1]), coefficients[..., 1:].flip(-1)), dim=-1)
    order = torch.fft.ifft(torch.complex(coefficients, -mirrored) / _turns(size, coefficients)).real
    signal = torch.empty_like(coefficients)
    middle = (size + 1) // 2
    signal[..., ::2], signal[..., 1::2] = order[..., :middle], order[..., middle:].flip(-1)
    return signal


def _turns(size: int, like: Tensor) -> Tensor:
    r""":math:`\sqrt{a_k / d}\, e^{-i \pi k / 2d}`, by which the reordered signal's transform differs (Makhoul 1980)."""
    k = torch.arange(size, dtype=torch.float64, device="cpu")
    length = torch.full_like(k, math.sqrt(2 / size))
    length[0] *= math.sqrt(0.5)
    return torch.polar(length, -math.pi / (2 * size) * k).to(like.device, torch.complex(like[:0], like[:0]).dtype)


def dct(x: Tensor) -> Tensor:
    """Coefficients of the last two dimensions."""
    return dct_1d(dct_1d(x).mT).mT


def inverse_dct(coefficients: Tensor) -> Tensor:
    """The planes with these coefficients."""
    return inverse_dct_1d(inverse_dct_1d(coefficients.mT).mT)


@_kept
def radial_rank(height: int, width: int) -> Tensor:
    """Place of each coefficient in the radial order, (height, width): 0 is the mean; ties are broken by index."""
    order = _squared_radius(height, width).flatten().argsort(stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(height * width)
    return rank.view(height, width)


def _squared_radius(height: int, width: int) -> Tensor:
    """Squared radius in units that make it whole, so that equal ones are equal: (iW)^2 + (jH)^2."""
    i, j = torch.arange(height)[:, None], torch.arange(width)
    return (i * width) ** 2 + (j * height) ** 2


@_kept
def low_pass_mask(height: int, width: int, share: float, rule: Rule = "rank") -> Tensor:
    """The coefficients that stay when a share of them, those of the highest frequencies, is removed, (height, width).

    Args:
        height: of the images.
        width: of the images.
        share: of the coefficients that are removed, in (0, 1); the mean always stays.
        rule: `rank` removes as many as the share says, rounded to a whole number. `radius` keeps what lies below the
            published radius, see `low_pass_radius`; since radii tie, up to a few more than the share are removed.
    """
    if rule == "radius":
        return _level(height, width) < _cut(height, width, share)
    count = height * width
    return radial_rank(height, width) < max(1, count - round(share * count))


def low_pass_radius(height: int, width: int, share: float) -> float:
    r"""The published radius of a low-pass filter in units of the side: the mask keeps what is strictly below.

    It is the first of :math:`\sqrt2\,(1 - n/2000)`, :math:`n = 0, 1, \dots`, that keeps less than :math:`1 - p`.
    """
    return _cut(height, width, share) * math.sqrt(2) / LEVELS


def _level(height: int, width: int) -> Tensor:
    """The radius of each coefficient in steps of the published search."""
    return (_squared_radius(height, width).double() / (2 * (height * width) ** 2)).sqrt() * LEVELS


def _cut(height: int, width: int, share: float) -> int:
    level = _level(height, width).flatten().sort().values
    kept = torch.searchsorted(level, torch.arange(1.0, LEVELS + 1, dtype=torch.float64))
    return max(1, int((kept < (1 - share) * len(level)).sum()))


def energy_mask(coefficients: Tensor, share: float) -> Tensor:
    r"""The coefficients that stay of each image when a share of them, the smallest, is removed, (N, 1, H, W).

    Their size is :math:`|X|` averaged over channels, so that all channels share a mask. What is smaller than the
    quantile of the share (interpolated) goes, in float64; of equal sizes those that come first go first.

    Args:
        coefficients: of images, (N, C, H, W).
        share: of the coefficients that are removed, in (0, 1).
    """
    size = (coefficients.abs().mean(1).flatten(1) / GRID).round()
    order = size.argsort(dim=1, stable=True)
    stays = torch.ones_like(size, dtype=torch.bool)
    stays.scatter_(1, order[:, : math.ceil(share * (size.shape[1] - 1))], value=False)
    return stays.view(len(coefficients), 1, *coefficients.shape[-2:])


@_kept
def bands(height: int, width: int, count: int = 10, rule: Rule = "rank") -> Tensor:
    """Number of the band of each coefficient, (height, width), from 0, the lowest frequencies, to `count` - 1.

    Args:
        height: of the images.
        width: of the images.
        count: of bands.
        rule: `rank` makes bands whose counts of coefficients differ by at most one. `radius` takes the published
            radii, which there are for ten bands of 32x32 pixels; their counts are 101 to 107.
    """
    if rule == "radius":
        if (height, width, count) != (32, 32, len(BAND_RADII) + 1):
            raise DataError(
                f"bands: radii are published for 10 bands of 32x32 pixels, got {count} of {height}x{width}; "
                "expected rule: rank"
            )
        radius = (_squared_radius(height, width).double() / (height * width)).sqrt()
        return torch.bucketize(radius, torch.tensor(BAND_RADII, dtype=torch.float64))
    if not 1 <= count <= height * width:
        raise DataError(f"bands: expected 1 to {height * width} bands of {height}x{width} pixels, got {count}")
    return radial_rank(height, width) * count // (height * width)


def low_pass(x: Tensor, share: float, rule: Rule = "rank") -> Tensor:
    r"""Images without their highest frequencies, :math:`C^T (M \odot C x C^T)\, C`, not clipped, (N, C, H, W)."""
    mask = low_pass_mask(*x.shape[-2:], share, rule).to(x.device)
    return inverse_dct(dct(x.double()) * mask).to(x.dtype)


def energy_filter(x: Tensor, share: float) -> Tensor:
    r"""Images without their smallest coefficients, :math:`C^T (M(x) \odot C x C^T)\, C`, not clipped, (N, C, H, W)."""
    coefficients = dct(x.double())
    return inverse_dct(coefficients * energy_mask(coefficients, share)).to(x.dtype)


def fourier_wave(height: int, width: int, i: int, j: int) -> Tensor:
    r""":math:`U_{ij}`, (height, width), float64, of length 1: a cosine with i periods in height and j in width."""
    r, c = torch.arange(height)[:, None], torch.arange(width)
    pixels = height * width
    turns = (i * r * width + j * c * height) % pixels
    turns = torch.minimum(turns, pixels - turns)  # whole, so that opposite waves are equal to the bit
    wave = torch.cos(2 * math.pi / pixels * turns.double())
    return wave / wave.square().sum().sqrt()


def fourier_projections(x: Tensor) -> Tensor:
    r""":math:`\langle x, U_{ij} \rangle` of planes with every wave, by one Fourier transform, (..., height, width).

    .. math:: \langle x, U_{ij} \rangle = \mathrm{Re}\, \hat x_{ij} \Bigm/
        \begin{cases} \sqrt{HW} & \text{if } (-i, -j) = (i, j) \\ \sqrt{HW / 2} & \text{otherwise} \end{cases}
    """
    height, width = x.shape[-2:]
    own = (2 * torch.arange(height) % height == 0)[:, None] & (2 * torch.arange(width) % width == 0)
    length = (height * width / (2.0 - own.double())).sqrt()
    projections: Tensor = torch.fft.fft2(x).real / length.to(x)
    return projections
