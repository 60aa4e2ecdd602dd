r"""Noise that is independent and alike in every pixel, and what it proves.

Let :math:`F` be the distribution function of one pixel's noise, symmetric about 0 and with a log-concave density, and
:math:`A` the set of inputs of a class. If :math:`x` plus noise falls into :math:`A` with probability :math:`p`, then
:math:`x + \delta` plus noise does so with probability at least

.. math:: G_r(p) = F\bigl(F^{-1}(p) - r\bigr), \qquad r = \|\delta\|_1 .

*One pixel.* A log-concave density has a monotone likelihood ratio, so that by Neyman and Pearson the set that loses
most to a shift by :math:`r` is a half-line, and a half-line keeps exactly :math:`G_r(p)`. *Many pixels.* Shift one
pixel after the other. Given the others, a section of :math:`A` with probability :math:`p'` keeps :math:`G(p')` at
least. The slope of :math:`G` is a likelihood ratio at :math:`F^{-1}(p)`, so it rises with :math:`p`: :math:`G` is
convex, and by Jensen the mean over the sections is at least :math:`G(p)`. Shifts of several pixels compose:
:math:`G_r \circ G_s = G_{r+s}`.

With the same from above for the runner-up, a class of probability :math:`p_A` stays ahead of one of :math:`p_B` within

.. math:: r = \tfrac12 \bigl(F^{-1}(p_A) - F^{-1}(p_B)\bigr),

which is :math:`F^{-1}(p_A)` where all that is known is :math:`p_B \le 1 - p_A`. Gaussian noise looks the same in every
direction, so that one may turn :math:`\delta` into a single pixel: there :math:`r` is an :math:`\ell_2` distance.

Reference:
    Cohen, Rosenfeld, Kolter, Certified Adversarial Robustness via Randomized Smoothing, ICML 2019, arXiv:1902.02918.
    Teng, Lee, Yuan, l1 Adversarial Robustness Certificates: a Randomized Smoothing Approach, 2020 (Laplace noise).
    Yang et al., Randomized Smoothing of All Shapes and Sizes, ICML 2020, arXiv:2002.08118 (uniform noise).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]


class Noise(Protocol):
    """One kind of noise at one strength."""

    @property
    def scale(self) -> float:
        """Its strength in [0, 1] pixel units."""
        ...

    def fill(self, values: Tensor, generator: torch.Generator) -> None:
        """Fill a tensor with noise of strength 1."""
        ...

    def quantile(self, share: Array) -> Array:
        r""":math:`F^{-1}`."""
        ...


@dataclass(frozen=True)
class Gaussian:
    r"""Normal noise: :math:`F^{-1} = \sigma\, \Phi^{-1}`."""

    scale: float

    def fill(self, values: Tensor, generator: torch.Generator) -> None:
        """Standard normal values."""
        values.normal_(generator=generator)

    def quantile(self, share: Array) -> Array:
        r""":math:`\sigma\, \Phi^{-1}(p)`."""
        from scipy.special import ndtri

        return self.scale * np.asarray(ndtri(share))


@dataclass(frozen=True)
class Laplace:
    r"""Noise of density :math:`e^{-|t| / \lambda} / 2\lambda`."""

    scale: float

    def fill(self, values: Tensor, generator: torch.Generator) -> None:
        """The difference of two exponential values, which needs no logarithm of a uniform value that may be 0."""
        values.exponential_(generator=generator).sub_(torch.empty_like(values).exponential_(generator=generator))

    def quantile(self, share: Array) -> Array:
        r""":math:`\lambda \log 2p` up to one half, :math:`-\lambda \log(2 - 2p)` above it."""
        with np.errstate(divide="ignore"):
            return self.scale * np.where(share < 0.5, np.log(2 * share), -np.log(2 * (1 - share)))


@dataclass(frozen=True)
class Uniform:
    r"""Noise uniform on :math:`[-w, w]`: :math:`F^{-1}(p) = 2 w (p - \frac12)`."""

    scale: float

    def fill(self, values: Tensor, generator: torch.Generator) -> None:
        """Uniform values in [-1, 1]."""
        values.uniform_(-1.0, 1.0, generator=generator)

    def quantile(self, share: Array) -> Array:
        r""":math:`2 w (p - \frac12)`."""
        return 2 * self.scale * (share - 0.5)
