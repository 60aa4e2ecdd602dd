"""Images that lose some of their frequencies, or have noise in some of them.

The filters are deterministic and training may use them, too: they are also augmentations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from holdfast.frequency import RULES, Rule, bands, energy_filter, inverse_dct, low_pass
from holdfast.rng import Streams, streams


@dataclass(frozen=True, kw_only=True)
class LowPass:
    r"""The image without its highest frequencies.

    .. math:: z = \mathrm{clip}\bigl(C^T (M \odot C x C^T)\, C\bigr)

    :math:`C` is the cosine transform and :math:`M` the mask of the coefficients that stay.

    Args:
        share: of the coefficients of the cosine transform that are removed, in (0, 1). The authors' command line takes
            the percentage that is kept.
        rule: `rank` removes exactly this share, rounded to a whole number of coefficients; `radius` keeps what lies
            below the published radius, which removes up to a few more.
        clip: whether values are cut to [0, 1]. The authors do not cut.

    Reference:
        Ma, Pan, Farahmand, Understanding the Robustness Difference between Stochastic Gradient Descent and Adaptive
        Gradient Methods, TMLR 2023, arXiv:2308.06703. Ma, Understanding Adversarial Robustness in Deep Learning,
        thesis, Toronto 2025, section 4.3.1 and appendix 4.C, whose printed mask is inverted.
    """

    share: float = 0.5
    rule: Rule = "rank"
    clip: bool = True

    def __post_init__(self) -> None:
        _check_share(self.share)
        _check_rule(self.rule)

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """Smooth images, (N, C, H, W), in [0, 1] if clipped."""
        return _clipped(low_pass(x, self.share, self.rule), self.clip)


@dataclass(frozen=True, kw_only=True)
class EnergyFilter:
    r"""The image without its smallest coefficients, its weakest frequencies.

    .. math:: z = \mathrm{clip}\bigl(C^T (M(x) \odot C x C^T)\, C\bigr)

    Each image has its own mask, by the size of its coefficients averaged over channels, and one for all channels.

    Args:
        share: of the coefficients of the cosine transform that are removed, in (0, 1).
        clip: whether values are cut to [0, 1]. The authors do not cut.

    Reference:
        As for `LowPass`.
    """

    share: float = 0.5
    clip: bool = True

    def __post_init__(self) -> None:
        _check_share(self.share)

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """Images of few coefficients, (N, C, H, W), in [0, 1] if clipped."""
        return _clipped(energy_filter(x, self.share), self.clip)


@dataclass(frozen=True, kw_only=True)
class BandNoise:
    r"""Gaussian noise in one band of frequencies.

    .. math:: z = x + C^T (M \odot \delta)\, C, \qquad \delta \sim N(0, \sigma^2 I)

    Bands of one draw have parts of the same :math:`\delta`: their noises are orthogonal and add up to white noise.

    Args:
        band: number of the band, from 0, the lowest frequencies, on.
        bands: into how many the coefficients of the cosine transform are divided.
        variance: :math:`\sigma^2`, of each coefficient.
        rule: `rank` makes bands whose numbers of coefficients differ by at most one, so that the expected length of the
            noise is the same; `radius` takes the published radii, for ten bands of 32x32 pixels.
        clip: whether values are cut to [0, 1], which moves energy out of the band. The authors do not cut.
        draw: number of the draw; other numbers give independent noise.

    Reference:
        As for `LowPass`, section 4.3.2. Differs: each image has noise of its own, as in the authors' code; the text
        gives all images the same ten noises.
    """

    band: int
    bands: int = 10
    variance: float = 0.01
    rule: Rule = "rank"
    clip: bool = False
    draw: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.band < self.bands:
            raise ValueError(f"band: expected 0 to bands - 1 = {self.bands - 1}, got {self.band}")
        if not 0 <= self.variance < math.inf:
            raise ValueError(f"variance: expected a finite number, not negative, got {self.variance}")
        _check_rule(self.rule)

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """Noisy images, (N, C, H, W), in [0, 1] if clipped."""
        return _with_noise(self, x, _white(self, x, rng), self.band)


def in_each_band(noise: BandNoise, x: Tensor, *, rng: Streams | None = None) -> Iterator[Tensor]:
    """What the noise would make of images in each of its bands, from the lowest frequencies on; it is drawn once."""
    white = _white(noise, x, rng)
    for band in range(noise.bands):
        yield _with_noise(noise, x, white, band)


def _white(noise: BandNoise, x: Tensor, rng: Streams | None) -> Tensor:
    r""":math:`\delta`, float64, like `x`."""
    return streams(rng, x).split(f"draw {noise.draw}").normal(x.double()).mul_(math.sqrt(noise.variance))


def _with_noise(noise: BandNoise, x: Tensor, white: Tensor, band: int) -> Tensor:
    chosen = bands(*x.shape[-2:], noise.bands, noise.rule).to(x.device) == band
    return _clipped((x + inverse_dct(white * chosen)).to(x.dtype), noise.clip)


def _clipped(z: Tensor, clip: bool) -> Tensor:
    return z.clamp(0, 1) if clip else z


def _check_share(share: float) -> None:
    if not 0 < share < 1:
        raise ValueError(f"share: expected a number between 0 and 1, got {share}")


def _check_rule(rule: Rule) -> None:
    if rule not in RULES:
        raise ValueError(f"rule: expected one of {', '.join(RULES)}, got {rule!r}")
