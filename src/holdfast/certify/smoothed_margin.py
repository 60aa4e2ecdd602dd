r"""The statistical certificate of a Lipschitz network under Gaussian noise, for noise of any strength.

Let :math:`L_c(z) = \max_{i \ne c} o_i(z) - o_c(z)` be the margin loss of class :math:`c` and
:math:`\bar L_c(x) = E\,L_c(x + \sigma\xi)`, :math:`\xi \sim N(0, I)`, its smoothed form. The certificate is about the
network with averaged logits, :math:`g(x) = \arg\max_i E\,o_i(x + \sigma\xi)`.

*What a negative smoothed margin means.* The mean of a maximum is at least the maximum of the means, so that
:math:`\bar L_c \ge \max_{i \ne c} E\,o_i - E\,o_c`. Hence :math:`\bar L_c(z) < 0` gives :math:`g(z) = c`, whatever the
distribution of the logits. (That class :math:`c` also has more than half of the noise, as the paper's proposition 3
says, needs more.)

*How far it stays negative.* The margin of a network that is :math:`K_p`-Lipschitz in :math:`\ell_p` is
:math:`\alpha_p K_p`-Lipschitz, and so is its average over shifts. Hence :math:`g = c` within
:math:`-\bar L_c(x) / \alpha_p K_p`.

*How well samples know it.* :math:`\xi \mapsto L_c(x + \sigma\xi)` is Lipschitz in :math:`\ell_2` with constant
:math:`\lambda = \sqrt2 K_2 \sigma`. By the concentration of Gaussian measure it is sub-Gaussian about its mean with
variance proxy :math:`\lambda^2`, so the mean :math:`m` of :math:`n` independent copies satisfies
:math:`P(\bar L_c > m + t) \le e^{-n t^2 / 2\lambda^2}`. With the class chosen by other copies and
:math:`t = \lambda\sqrt{2 \ln(1/\alpha) / n}`,

.. math:: r = \frac{-m - t}{\alpha_p K_p}

holds with probability :math:`1 - \alpha` at least. In :math:`\ell_2` the price of sampling is
:math:`\sigma\sqrt{2 \ln(1/\alpha) / n}`, whatever the network; it vanishes with :math:`\sigma`, where the certificate
becomes that of the margin.

Reference:
    Crespo, Teramae, Smoothed Robustness Analysis, TMLR, theorem 4 (the radius), whose closed form for :math:`\bar L`
    (equation 7) is no bound. Boucheron, Lugosi, Massart, Concentration Inequalities, 2013, theorem 5.6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from holdfast.certify.copies import Copies
from holdfast.certify.margin import ESTIMATED, check_bounded, check_constant, exact
from holdfast.certify.noise import Gaussian
from holdfast.errors import ModelError
from holdfast.lipschitz.margins import margin_bound, margin_growth
from holdfast.lipschitz.radii import Norm
from holdfast.lipschitz.rounding import ELEMENTARY, gamma
from holdfast.losses import margin
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.types import ABSTAIN, Certificate, Classifier


@dataclass(frozen=True, kw_only=True)
class SmoothedMargin:
    r"""Smoothed-margin certificate (MSCR with a confidence bound); see the module for its proof.

    The network is taken in evaluation mode, whatever mode it is in. Copies go through it in float64, and rounding is
    taken off as in `Margin`: bounded, or estimated where the constant is given. The draws count as normal noise.
    :math:`\alpha_p K_p` is the largest growth of a pair of logits with the class, see `lipschitz.pairs`.

    Args:
        sigma: standard deviation of the noise in [0, 1] pixel units; copies are not clipped.
        n: copies that estimate the smoothed margin.
        n0: copies that choose the class.
        alpha: probability that a certificate is wrong.
        norm: of distances.
        constant: Lipschitz constant of the network in `norm` and in l2, if it is known otherwise; None computes the
            bounds of `margin_bound` from the weights.
        batch: rows of a forward pass.
    """

    sigma: float
    n: int = 1000
    n0: int = 100
    alpha: float = 0.001
    norm: Literal["l1", "l2", "linf"] = "l2"
    constant: float | None = None
    batch: int = 512

    def __post_init__(self) -> None:
        if not 0 < self.sigma < math.inf:
            raise ValueError(f"sigma must be positive and finite, got {self.sigma}")
        check_constant(self.constant)
        for name in ("n", "n0", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha must lie between 0 and 1, got {self.alpha}")

    @property
    def smoothed(self) -> bool:
        """It is about the network with averaged logits."""
        return True

    @property
    def bound_in(self) -> Norm | None:
        """The norm in which the network needs a known Lipschitz constant."""
        return self.norm if self.constant is None else None

    @in_evaluation_mode
    def __call__(self, model: Classifier, x: Tensor, *, rng: Streams | None = None) -> Certificate:
        """Certificate of each example."""
        if not len(x):
            return Certificate.of_nothing(x, sampled=True)
        check_bounded(model, self.constant)
        rng = streams(rng, x)
        precise = exact(model, self.constant)
        classes = mean_logits(precise, x, self.sigma, self.n0, rng.split("selection"), self.batch).argmax(1)
        estimate = estimate_margin(precise, x, classes, self.sigma, self.n, rng.split("estimation"), self.batch)
        if not bool(estimate.mean.isfinite().all()):
            raise ModelError("smoothed_margin: the logits of noisy copies are not finite")
        growth, euclidean, off = self._growth(model, x, classes, estimate)
        left = certified_radius(estimate.mean + off, euclidean * self.sigma, self.n, self.alpha)
        radius = left * (1 - gamma(ELEMENTARY)) / growth
        samples = torch.full_like(classes, self.n + self.n0)
        return Certificate(torch.where(radius > 0, classes, ABSTAIN), radius.clamp_min(0), samples)

    def _growth(
        self, model: Classifier, x: Tensor, classes: Tensor, estimate: MarginEstimate
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Of each image's class the growth of its margin in `norm` and in l2, and how far its margins may be off."""
        if self.constant is not None:
            constants = (margin_growth(model, x, norm, self.constant) for norm in (self.norm, "l2"))
            growth, euclidean = (torch.full_like(estimate.mean, each) for each in constants)
            return growth, euclidean, estimate.rounding
        bound, flat = margin_bound(model, x, self.norm), margin_bound(model, x, "l2")
        growth, euclidean = (each.growth.to(x.device).amax(1)[classes] for each in (bound, flat))
        noise = FARTHEST * self.sigma * math.sqrt(x[0].numel())
        return growth, euclidean, flat.rounding(x, {"l2": noise})


FARTHEST = 9.0
"""Deviations from its mean beyond which no generator of normal numbers in float64 goes."""


def certified_radius(mean: Tensor, proxy: float | Tensor, n: int, alpha: float) -> Tensor:
    r""":math:`-m - \lambda\sqrt{2\ln(1/\alpha)/n}`: what is surely left of the margin, (N,).

    Args:
        mean: :math:`m`, of n copies.
        proxy: :math:`\lambda`, root of the variance proxy of one copy.
        n: copies.
        alpha: probability of an error.
    """
    return -mean - proxy * math.sqrt(2 * math.log(1 / alpha) / n)


@dataclass(frozen=True)
class MarginEstimate:
    """Monte-Carlo estimates under noise, float64.

    Args:
        mean: of the margin loss, (N,).
        error: its standard error, (N,).
        share: of copies where the class wins, (N,).
        rounding: how far the mean is off because logits are rounded, estimated as in `Margin`, (N,).
    """

    mean: Tensor
    error: Tensor
    share: Tensor
    rounding: Tensor


@in_evaluation_mode
def estimate_margin(
    model: Classifier, x: Tensor, y: Tensor, sigma: float, n: int, rng: Streams | None = None, batch: int = 512
) -> MarginEstimate:
    """Smoothed margin and probability of a class by sampling: what equations 7, 8, 13 and 14 approximate.

    Args:
        model: the classifier.
        x: images, (N, ...).
        y: classes, (N,).
        sigma: standard deviation of the noise.
        n: noisy copies of each image.
        rng: random streams of the images.
        batch: rows of a forward pass.
    """

    def measure(logits: Tensor, owners: Tensor) -> Tensor:
        values = margin(logits, y[owners])
        rounding = ESTIMATED * torch.finfo(logits.dtype).eps * logits.abs().amax(1)
        return torch.stack((values, values**2, (values < 0).to(values), rounding), 1)

    sums: Tensor = Copies(model, x, Gaussian(sigma), streams(rng, x), batch).sums(n, measure) / n
    mean, square, share, rounding = sums.unbind(1)
    return MarginEstimate(mean, ((square - mean**2).clamp_min(0) / max(n - 1, 1)).sqrt(), share, rounding)


@in_evaluation_mode
def mean_logits(
    model: Classifier, x: Tensor, sigma: float, n: int, rng: Streams | None = None, batch: int = 512
) -> Tensor:
    """Logits averaged over noisy copies, (N, K), float64: what the certified classifier compares."""
    total: Tensor = Copies(model, x, Gaussian(sigma), streams(rng, x), batch).sums(n, lambda logits, owners: logits)
    return total / n
