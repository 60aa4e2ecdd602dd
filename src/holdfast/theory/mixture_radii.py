r"""Radii of mixed classifiers, from constants or probabilities that are known otherwise.

Mixed *logits* (theorems 1 and 2) need constants of both classifiers, which are known of linear ones and hardly of
others. Mixed *probabilities* need constants of :math:`h` alone, as in `holdfast.certify.mixture_radii`, whose radius is
what certificates use.

Reference:
    Bai, Anderson, Sojoudi, Avoiding the Accuracy-Robustness Trade-off of Classifiers via Local Adaptive Smoothing,
    theorems 1 and 2. Bai, Anderson, Kim, Sojoudi, Improving the Accuracy-Robustness Trade-off of Classifiers via
    Adaptive Smoothing, arXiv:2301.12554, section 4.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from holdfast.certify.mixture_radii import require_positive, require_share
from holdfast.ensembles.mixing import GradientRatio, mix_logits, robust_share
from holdfast.ensembles.neighbours import NearestNeighbours
from holdfast.errors import ModelError
from holdfast.lipschitz.affine import check_affine


@dataclass(frozen=True)
class Constants:
    r"""Bounds of a classifier's logits over all inputs, (K,) each, or (N, K) where they differ by image.

    Bounds that are too large, or a `least` that is too small, make radii smaller and never wrong.

    Args:
        slope: :math:`M_k \ge \|\nabla f_k\|_*`.
        bend: :math:`L_k`, Lipschitz constant of :math:`\nabla f_k`; 0 for linear logits, none for ReLU networks.
        least: :math:`m_k \le \|\nabla f_k\|_*`.
    """

    slope: Tensor
    bend: Tensor
    least: Tensor


def affine_constants(model: nn.Module, x: Tensor, norm: Literal["l1", "l2", "linf"]) -> Constants:
    """Exact constants of a network whose logits are affine: their gradients are the same everywhere.

    Args:
        model: the network; it is judged in evaluation mode.
        x: images, of which two are looked at.
        norm: of distances.

    Raises:
        ModelError: if the network is not affine. Of others nothing is known that theorems 1 and 2 could use: gradients
            of ReLU networks jump, and a Lipschitz constant alone does not bound how fast a gradient turns.
    """
    check_affine(model, "theorems 1 and 2")
    judged, one = copy.deepcopy(model).double().eval(), x[:1].double()
    alone, slope = (part[0] for part in GradientRatio(norm=norm).measured(judged, one))
    with torch.no_grad():
        among = judged(torch.cat((one, x[-1:].double() + 1)))[0]
    if not torch.allclose(among, alone):
        raise ModelError("theorems 1 and 2: expected logits of each image by itself; they depend on the whole batch")
    return Constants(slope, torch.zeros_like(slope), slope)


def unchanged_radius(oracle: NearestNeighbours, x: Tensor, norm: Literal["l1", "l2", "linf"]) -> Tensor:
    r"""How far the answer of a nearest-neighbour oracle cannot change, (N,); theorem 1 holds within it.

    .. math:: \frac{d_{k+1} - d_k}{2}\, \min_c \mathrm{std}_c

    in :math:`\ell_2`: a step of length :math:`r` moves a standardised image by at most
    :math:`r / \min_c \mathrm{std}_c` and each distance by no more, so that the same :math:`k` images stay the nearest.
    In :math:`\ell_\infty` it is less by :math:`\sqrt d`; in :math:`\ell_1` it is the same. Where all images are
    neighbours it is infinite.

    Args:
        oracle: with equal weights, which alone make the answer constant.
        x: images, (N, ...).
        norm: of distances.

    Raises:
        ModelError: for other weights.
    """
    if oracle.weights != "uniform":
        raise ModelError(f"theorem 1: expected an oracle whose neighbours count alike; got weights {oracle.weights}")
    if oracle.k == len(oracle.images):
        return x.new_full((len(x),), math.inf, dtype=torch.float64)
    apart = oracle.distances(x, oracle.k + 1)
    least = float(oracle.std.min()) / (math.sqrt(x[0].numel()) if norm == "linf" else 1.0)
    return (apart[:, -1] - apart[:, -2]) / 2 * least


def local_bias_radius(g: Tensor, h: Tensor, steep: Tensor, constants: Constants, strength: float) -> Tensor:
    r"""How far the predicted class of `LocalBias` stays, as long as the oracle does not change: theorem 1, (N,).

    For every other class the positive root of :math:`(L_i + L_j)\epsilon^2 + b\,\epsilon = |z_i - z_j|`,

    .. math:: b = \sum_{k \in \{i, j\}} \frac{\alpha L_k |g_k(x)|}{1 + \alpha \|\nabla g_k(x)\|_*} + 2 \alpha L_k
              + \frac{M_k}{1 + \alpha M_k}

    which is :math:`|z_i - z_j| / b` where :math:`L_i + L_j = 0` (the printed quotient is then 0 / 0). The oracle of the
    paper lies in [-1, 1]; where :math:`|h_k| > 2` it stands in place of the 2.

    Args:
        g: logits, (N, K).
        h: the oracle, (N, K).
        steep: :math:`\|\nabla g_k(x)\|_*`, (N, K).
        constants: of :math:`g`.
        strength: :math:`\alpha`, finite.
    """
    _finite(strength)
    g, h, steep, bend, slope = (part.double() for part in (g, h, steep, constants.bend, constants.slope))
    z = mix_logits(g, h, robust_share(steep, torch.ones_like(steep), strength))
    turn = strength * bend * (g.abs() / (1 + strength * steep) + h.abs().clamp(min=2))
    own = turn + slope / (1 + strength * slope)
    own, bend = own.expand_as(z), bend.expand_as(z)
    return _smallest(z, lambda lead, i: _root(bend.gather(1, i) + bend, own.gather(1, i) + own, lead))


def gradient_ratio_radius(
    g: Tensor, h: Tensor, steep_g: Tensor, steep_h: Tensor, of_g: Constants, of_h: Constants, strength: float
) -> Tensor:
    r"""How far the predicted class of `GradientRatio` stays: theorem 2, (N,).

    For every other class the largest :math:`\epsilon` with :math:`\epsilon \sum_{k \in \{i, j\}} (C^{(1)}_k + \alpha
    C^{(2)}_k) \le |z_i - z_j|`, where :math:`K_k = |f_k(x)| + M_k \epsilon` bounds a logit within the ball. Where
    :math:`m^h_k = 0` nothing is proved. It is about :math:`\epsilon_c = 0`.

    Args:
        g: logits, (N, K).
        h: logits of the robust classifier, (N, K).
        steep_g: :math:`\|\nabla g_k(x)\|_*`, (N, K).
        steep_h: the same of :math:`h`.
        of_g: constants of :math:`g`.
        of_h: constants of :math:`h`.
        strength: :math:`\alpha`, finite.
    """
    _finite(strength)
    g, h, steep_g, steep_h = (part.double() for part in (g, h, steep_g, steep_h))
    z = mix_logits(g, h, robust_share(steep_g, steep_h, strength))
    (upper_g, bend_g, least_g), (upper_h, bend_h, least_h) = (
        (one.slope.double(), one.bend.double(), one.least.double()) for one in (of_g, of_h)
    )
    ratio = steep_g / steep_h
    turn = (bend_h * ratio + bend_g) / least_h
    below = (1 + strength * least_g / upper_h) * (1 + strength * ratio)
    first = upper_g * (1 + strength * upper_g / least_h) + strength * g.abs() * turn
    second = upper_g * upper_h / least_h * (1 + strength * ratio) + h.abs() * turn
    own = (first + strength * second) / below
    rise = strength * turn * (upper_g + upper_h) / below  # of `own` with the size of the ball
    radius = _smallest(z, lambda lead, i: _root(rise.gather(1, i) + rise, own.gather(1, i) + own, lead))
    return torch.where((least_h > 0).expand_as(z).all(1), radius, 0.0)


def lipschitz_radius(gap: Tensor, share: float, constant: float) -> Tensor:
    r"""How far mixed probabilities keep their class when each of :math:`h` is Lipschitz, (N,).

    .. math:: \frac{\max(0,\ a\,\mathrm{gap} + a - 1)}{2\,a\,\mathrm{Lip}}

    Args:
        gap: by how much the likeliest class of :math:`h` leads, in probability, (N,).
        share: :math:`a`, of :math:`h` in the mixture.
        constant: Lipschitz constant of each of its probabilities.
    """
    require_share(share)
    require_positive("constant", constant)
    return (share * gap.double() + share - 1).clamp_min(0) / (2 * share * constant)


def smoothed_radius(first: Tensor, second: Tensor, share: float, sigma: float) -> Tensor:
    r"""How far mixed probabilities keep their class when those of :math:`h` are means under Gaussian noise, (N,).

    .. math:: \frac\sigma2 \bigl[\Phi^{-1}(a\,p_1) - \Phi^{-1}(1 - a\,(1 - p_2))\bigr]_+

    Args:
        first: :math:`p_1`, or a lower bound of it, (N,).
        second: :math:`p_2`, or an upper bound of it, (N,).
        share: :math:`a`.
        sigma: :math:`\sigma` of the noise.
    """
    require_share(share)
    require_positive("sigma", sigma)
    high: Tensor = torch.special.ndtri(share * first.double())
    low: Tensor = torch.special.ndtri(1 - share * (1 - second.double()))
    return (0.5 * sigma * (high - low)).clamp_min(0)


def _smallest(z: Tensor, radius: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Over all other classes, of the radius by the lead of the predicted one, (N,)."""
    i = z.argmax(1, keepdim=True)
    return radius(z.gather(1, i) - z, i).scatter(1, i, math.inf).amin(1)


def _root(square: Tensor, linear: Tensor, lead: Tensor) -> Tensor:
    """The positive root of `square e^2 + linear e = lead`, in a form that does not cancel; (N, K)."""
    below = linear + (linear.square() + 4 * square * lead).sqrt()
    return torch.where(lead > 0, 2 * lead / below, 0.0)


def _finite(strength: float) -> None:
    if not 0 <= strength < math.inf:
        raise ValueError(f"strength must be finite and not negative, got {strength}")
