r"""The discrete cosine transform (DCT-II, orthonormal) of images, as a matrix product.

.. math:: C_{kj} = \sqrt{a_k / d}\,\cos\bigl(\tfrac{\pi}{d}(j + \tfrac12)k\bigr), \qquad a_0 = 1,\ a_{k>0} = 2

:math:`C` is orthogonal, so a plane :math:`x` goes to :math:`X = C x C^T` and comes back as :math:`x = C^T X C`. (The
inverse is sometimes printed as :math:`C X C^T`, which is wrong: :math:`C` is not symmetric.)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def dct_matrix(size: int, like: Tensor) -> Tensor:
    """The orthogonal matrix C, (size, size), row k the k-th frequency; computed in float64, dtype as `like`."""
    k = torch.arange(size, dtype=torch.float64)[:, None]
    j = torch.arange(size, dtype=torch.float64)[None]
    cosine = torch.cos(math.pi / size * (j + 0.5) * k) * math.sqrt(2 / size)
    cosine[0] *= math.sqrt(0.5)
    return cosine.to(like)


def dct(x: Tensor) -> Tensor:
    """Coefficients of the last two dimensions."""
    return dct_matrix(x.shape[-2], x) @ x @ dct_matrix(x.shape[-1], x).mT


def inverse_dct(coefficients: Tensor) -> Tensor:
    """The planes with these coefficients."""
    rows, columns = coefficients.shape[-2:]
    return dct_matrix(rows, coefficients).mT @ coefficients @ dct_matrix(columns, coefficients)
