r"""Margins, smoothed margins and the radii that follow from them.

:math:`L_M = \max_{i \ne c} o_i - o_c` is the margin loss of class :math:`c`, negative where :math:`c` wins. Under noise
the logits have means :math:`\mu` and variances :math:`\sigma^2`, here assumed independent and Gaussian; 1 and 2 are the
wrong classes with the largest and second largest mean.

Reference:
    Crespo, Teramae, Smoothed Robustness Analysis, TMLR, sections 2 and 3 and appendix A. Zhen, Chakraborty, Singh,
    Simpler Certified Radius Maximization by Propagating Covariances, CVPR 2021, arXiv:2104.05888.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from holdfast.lipschitz.moments import Moments, larger_moments, normal_cdf
from holdfast.lipschitz.rounding import gamma

Norm = Literal["l1", "l2", "linf"]

ALPHA: dict[Norm, float] = {"l1": 1.0, "l2": math.sqrt(2), "linf": 2.0}
r""":math:`\alpha_p = 2^{1/q}`, :math:`1/p + 1/q = 1`: the margin of a :math:`K_p`-Lipschitz network is
:math:`\alpha_p K_p`-Lipschitz."""


def margin_radius(logits: Tensor, growth: float | Tensor, rounding: float | Tensor = 0.0) -> tuple[Tensor, Tensor]:
    r"""How far the largest logit stays the largest, in float64 and rounded down, and which one it is.

    .. math:: \min_{j \ne c} \frac{o_c - o_j - e}{G_{cj}}

    Args:
        logits: (N, K).
        growth: :math:`G`, how much the difference of two logits can change per unit of distance, (K, K) or one number
            for all; with 0 a logit leads the other everywhere.
        rounding: :math:`e`, error bound of a difference of two logits, (N,) or one number.
    """
    z = logits.double()
    prediction = z.argmax(1)
    lead = (
        z.gather(1, prediction[:, None])
        - z
        - torch.as_tensor(rounding, dtype=torch.float64, device=z.device)[..., None]
    )
    rates = torch.as_tensor(growth, dtype=torch.float64, device=z.device).expand(z.shape[1], z.shape[1])[prediction]
    radii = torch.where(lead > 0, lead * (1 - gamma(8)) / rates, 0.0)
    return radii.scatter(1, prediction[:, None], math.inf).amin(1), prediction


def group_radius(
    logits: Tensor, growth: float | Tensor, groups: Sequence[Sequence[int]], rounding: float | Tensor = 0.0
) -> tuple[Tensor, Tensor]:
    r"""How far the largest logit stays in its group, in float64 and rounded down, and which group it is.

    .. math:: \min_{j \notin g} \max_{k \in g} \frac{o_k - o_j - e}{G_{kj}}

    Each class :math:`j` outside is behind some class of the group up to there. With :math:`k = c` alone that would be
    `margin_radius` over fewer :math:`j`, so that the radius is never smaller.

    Args:
        logits: (N, K).
        growth: :math:`G`, as in `margin_radius`.
        groups: the classes of each group.
        rounding: :math:`e`, as in `margin_radius`.
    """
    z, classes = logits.double(), logits.shape[1]
    errors = torch.as_tensor(rounding, dtype=torch.float64, device=z.device).expand(len(z))
    rates = torch.as_tensor(growth, dtype=torch.float64, device=z.device).expand(classes, classes)
    prediction, radius = torch.zeros(len(z), dtype=torch.int64, device=z.device), z.new_zeros(len(z))
    for group, members in enumerate(groups):
        inside = torch.zeros(classes, dtype=torch.bool, device=z.device)
        inside[list(members)] = True
        rows = inside[z.argmax(1)].nonzero()[:, 0]
        own = z[rows]
        lead = own[:, inside, None] - own[:, None, ~inside] - errors[rows, None, None]
        radii = torch.where(lead > 0, lead * (1 - gamma(8)) / rates[inside][:, ~inside], 0.0)
        prediction[rows], radius[rows] = group, radii.amax(1).amin(1)
    return radius, prediction


def smoothed_margin(moments: Moments, y: Tensor) -> Tensor:
    r"""Expected margin if only the two likeliest wrong classes counted, (N,): equation 7.

    .. math:: a\,\varphi(D/a) + \mu_2 + D\,\Phi(D/a) - \mu_c, \qquad D = \mu_1 - \mu_2,\ a^2 = \sigma_1^2 + \sigma_2^2

    The mean of a maximum over two of the classes is below that over all, so radii from it are too large: it is a
    training objective and no certificate. With two classes it is the difference of the means.
    """
    first, second = _wrong(moments, y)
    largest = first.mean if second is None else larger_moments(first, second).mean
    return largest - _right(moments, y).mean


def correct_probability(moments: Moments, y: Tensor) -> Tensor:
    r"""Probability that class :math:`c` beats the likeliest wrong one, (N,): equation 8, an upper bound.

    .. math:: \Phi\Bigl((\mu_c - \mu_1) / \sqrt{\sigma_c^2 + \sigma_1^2}\Bigr)
    """
    return normal_cdf(_standardised(moments, y))


def zhen_radius(moments: Moments, y: Tensor, sigma: float) -> Tensor:
    r"""Zhen's radius of randomized smoothing, (N,): equation 9, exact for a linear classifier of two classes.

    .. math:: \sigma_x\,(\mu_c - \mu_1) / \sqrt{\sigma_c^2 + \sigma_1^2}
    """
    return sigma * _standardised(moments, y)


def smoothed_margin_integral(moments: Moments, y: Tensor) -> Tensor:
    r"""Expected margin over all classes, (N,): equation 13, for independent Gaussians.

    .. math:: \sum_{i \ne c} \int t\,\rho_i(t) \prod_{j \ne i, c} F_j(t)\,dt - \mu_c
        = b - \int_a^b \prod_{i \ne c} F_i(t)\,dt - \mu_c

    by Gauss-Legendre quadrature; the sum is integrated by parts, between an :math:`a` below which and a :math:`b` above
    which the product is 0 and 1.
    """
    mean, deviation = moments.mean.double(), moments.variance.double().sqrt()
    others = _others(y, mean.shape[1])
    # P(max <= t) is 0 where any class is above t for sure, and 1 where all are below.
    low, high = ((mean + s * _FAR * deviation).masked_fill(~others, -math.inf).amax(1) for s in (-1, 1))
    t, weights = _nodes(low, high, mean, deviation)
    below = _product_of_cdf(t, mean, deviation, others)
    return high - (below * weights).sum(1) - mean.gather(1, y[:, None])[:, 0]


def correct_probability_integral(moments: Moments, y: Tensor) -> Tensor:
    r"""Probability that class :math:`c` beats all others, (N,): equation 14, for independent Gaussians.

    .. math:: \int \rho_c(t) \prod_{i \ne c} F_i(t)\,dt
    """
    mean, deviation = moments.mean.double(), moments.variance.double().sqrt()
    centre, spread = (part.gather(1, y[:, None])[:, 0] for part in (mean, deviation))
    t, weights = _nodes(centre - _FAR * spread, centre + _FAR * spread, mean, deviation)
    density = torch.exp(-0.5 * ((t - centre[:, None]) / spread[:, None]) ** 2) / (spread[:, None] * _ROOT)
    return (density * _product_of_cdf(t, mean, deviation, _others(y, mean.shape[1])) * weights).sum(1)


_ROOT = math.sqrt(2 * math.pi)
_FAR = 8.0  # deviations beyond which a Gaussian, 6e-16 of it, is neglected


def _product_of_cdf(t: Tensor, mean: Tensor, deviation: Tensor, others: Tensor) -> Tensor:
    """P(all other classes <= t), (N, nodes)."""
    scores = (t[:, :, None] - mean[:, None]) / deviation[:, None].clamp_min(torch.finfo(t.dtype).tiny)
    return normal_cdf(scores).masked_fill(~others[:, None], 1.0).prod(2)


def _nodes(low: Tensor, high: Tensor, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
    """Points and weights of quadrature from low to high (N,), cut where a class begins, has its middle and ends.

    Between two cuts no class is narrower than the piece, so that few points are exact.
    """
    points, weights = (torch.from_numpy(part).to(low) for part in np.polynomial.legendre.leggauss(24))
    cuts = torch.cat([low[:, None], high[:, None], *(mean + s * _FAR * deviation for s in (-1, 0, 1))], 1)
    cuts = cuts.clamp(low[:, None], high[:, None]).sort(1).values
    half = (cuts[:, 1:] - cuts[:, :-1])[:, :, None] / 2
    return (cuts[:, :-1, None] + half * (points + 1)).flatten(1), (half * weights).flatten(1)


def _others(y: Tensor, classes: int) -> Tensor:
    return torch.arange(classes, device=y.device) != y[:, None]


def _right(moments: Moments, y: Tensor) -> Moments:
    return Moments(*(part.gather(1, y[:, None])[:, 0] for part in moments))


def _wrong(moments: Moments, y: Tensor) -> tuple[Moments, Moments | None]:
    """The wrong classes of largest and second largest mean; of two classes only one is wrong."""
    means = moments.mean.masked_fill(~_others(y, moments.mean.shape[1]), -math.inf)
    places = means.topk(min(2, means.shape[1] - 1), dim=1).indices
    first, *rest = (Moments(*(part.gather(1, place[:, None])[:, 0] for part in moments)) for place in places.unbind(1))
    return first, rest[0] if rest else None


def _standardised(moments: Moments, y: Tensor) -> Tensor:
    right, (first, _) = _right(moments, y), _wrong(moments, y)
    spread = (right.variance + first.variance).clamp_min(torch.finfo(right.mean.dtype).tiny).sqrt()
    return (right.mean - first.mean) / spread
