"""Noise with a given spectrum: blue noise that chooses pixels, and brownish noise that is added."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.corruptions.bar.geometry import precise, side
from holdfast.rng import Streams


def blue_noise_sample(x: Tensor, level: float, rng: Streams) -> Tensor:
    r"""Pixels go black where blue noise is low: :math:`z = x\,[n > 0.3 s - 2.5]`, the same pixels in all channels.

    The amplitude of :math:`n` grows as the frequency, so black pixels keep away from each other. About
    :math:`\Phi(0.3 s - 2.5)` of them go black.
    """
    noise = coloured_noise(x[:, :1], frequency(x), rng)
    return x.where(noise > 0.3 * level - 2.5, 0.0)


def brownish_noise(x: Tensor, level: float, rng: Streams) -> Tensor:
    r"""Cloudy noise is added: :math:`z = \mathrm{clip}(x + \tfrac{6.4\,s}{255}\,n)`, another one for each channel.

    The amplitude of frequency :math:`k`, in cycles per shorter side, is :math:`1 / (1 + k^2)`. The constant one is
    included, so that the whole image becomes brighter or darker too.
    """
    noise = coloured_noise(x, 1 / (1 + frequency(x).square()), rng)
    return noise.to(x.dtype).mul_(6.4 * level / 255).add_(x).clamp_(0, 1)


def frequency(x: Tensor) -> Tensor:
    """Length of each frequency of the plane's Fourier transform in cycles per shorter side, (H, W)."""
    rows, columns = (torch.fft.fftfreq(size, d=1 / side(x), dtype=precise(x), device=x.device) for size in x.shape[-2:])
    return torch.hypot(rows[:, None], columns[None])


def coloured_noise(like: Tensor, amplitude: Tensor, rng: Streams) -> Tensor:
    r"""Real part of a plane whose frequencies have the given amplitude and random phases, of standard deviation 1.

    .. math:: n = \Re F^{-1}(a\,e^{i \phi}), \qquad \phi_k \sim U(0, 2\pi)

    Every frequency has its own phase. The reference lets frequencies :math:`k` and :math:`-k - 1` share one, where it
    means :math:`k` and :math:`-k`; so two of its pixels have twice the variance, and two have almost none.

    Args:
        like: planes (N, C, H, W).
        amplitude: :math:`a`, (H, W), in the order of the Fourier transform.
        rng: streams of the examples.
    """
    phase = rng.uniform(torch.empty_like(like, dtype=precise(like))).mul_(2 * math.pi)
    noise: Tensor = torch.fft.ifft2(torch.polar(amplitude.expand(phase.shape), phase)).real
    return noise / noise.std(dim=(-2, -1), correction=0, keepdim=True)
