r"""Randomized smoothing: certificates of the classifier that answers with the most frequent class under noise.

.. math:: g(x) = \arg\max_c\; P\bigl(f(x + \epsilon) = c\bigr)

The three methods differ in the noise :math:`\epsilon` alone; `noise` has the radii and their proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from holdfast.certify.bounds import BOUNDS, Integers, Question, Tally
from holdfast.certify.counting import Counter, tally
from holdfast.certify.noise import Gaussian, Laplace, Noise, Uniform
from holdfast.certify.sampling import FIXED, Sampling
from holdfast.certify.settle import check_possible, settle
from holdfast.errors import unknown
from holdfast.lipschitz.rounding import double
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.statistics import fair_coin_test
from holdfast.types import ABSTAIN, Certificate, Classifier

Bound = Literal["one_vs_rest", "two_class"]
"""A name of `bounds.BOUNDS`."""


@in_evaluation_mode
def certify(method: Smoothing, model: Classifier, x: Tensor, *, rng: Streams | None = None) -> Certificate:
    """CERTIFY: choose a class for each image, sample until its radius is settled, abstain where there is none."""
    rng = streams(rng, x)
    if not len(x):
        return Certificate.of_nothing(x, sampled=True)
    everyone = np.arange(len(x))
    chosen = _counter(method, model, x, rng, "selection").up_to(everyone, np.full(len(x), method.n0))
    classes = chosen.argmax(1)
    counters: dict[str, Counter] = {}

    def draw(purpose: str, rows: Integers, goals: Integers) -> Tally:
        if purpose not in counters:
            counters[purpose] = _counter(method, model, x, rng, purpose)
        return tally(counters[purpose].up_to(rows, goals), classes[torch.from_numpy(rows).to(x.device)])

    radius, used = settle(method.sampling, _question(method), tally(chosen, classes), draw)
    proved = torch.from_numpy(radius).to(double(x[:0]).device)
    prediction = torch.where(proved.to(x.device) > 0, classes, ABSTAIN)
    return Certificate(prediction, proved.clamp(min=0), torch.from_numpy(used + method.n0).to(x.device))


@in_evaluation_mode
def predict_class(method: Smoothing, model: Classifier, x: Tensor, *, rng: Streams | None = None) -> Tensor:
    r"""PREDICT: the most frequent class of `n` copies, unless it leads the next one by no more than chance.

    It abstains where the exact two-sided binomial test of the two counts has a p-value above :math:`\alpha`. A class
    that is not that of the smoothed network is returned with probability at most :math:`\alpha`.
    """
    rng = streams(rng, x)
    fewest = math.ceil(1 - math.log2(method.alpha))  # if all agree, the p-value is 2^(1 - n)
    if method.n < fewest:
        raise ValueError(f"n must be at least {fewest} to predict at alpha {method.alpha:g}, got {method.n}")
    if not len(x):
        return torch.empty(0, dtype=torch.int64, device=x.device)
    counts = _counter(method, model, x, rng, "prediction").up_to(np.arange(len(x)), np.full(len(x), method.n))
    classes = counts.argmax(1)
    seen = tally(counts, classes)
    settled = torch.from_numpy(fair_coin_test(seen.top, seen.other) <= method.alpha).to(x.device)
    return torch.where(settled, classes, ABSTAIN)


def check(name: str, method: Smoothing) -> None:
    """Refuse impossible fields; `name` is what the method calls the strength of its noise."""
    if not 0 < method.noise.scale < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {method.noise.scale}")
    if min(method.n, method.n0, method.batch) < 1:
        raise ValueError(f"n, n0 and batch must be at least 1, got {method.n}, {method.n0} and {method.batch}")
    if not 0 < method.alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {method.alpha}")
    if method.bound not in BOUNDS:
        raise ValueError(f"bound: {unknown(method.bound, BOUNDS)}")
    check_possible(method.sampling, _question(method))


def _question(method: Smoothing) -> Question:
    return Question(method.noise, method.bound, method.n, method.alpha)


def _counter(method: Smoothing, model: Classifier, x: Tensor, rng: Streams, purpose: str) -> Counter:
    return Counter(model, x, method.noise, rng.split(f"smoothing {purpose}"), method.batch)


@dataclass(frozen=True, kw_only=True)
class GaussianSmoothing:
    r"""CERTIFY and PREDICT with normal noise: a certificate in :math:`\ell_2`.

    .. math:: r = \sigma\, \Phi^{-1}(\underline{p_A}) \qquad\text{or}\qquad
              r = \tfrac\sigma2 \bigl(\Phi^{-1}(\underline{p_A}) - \Phi^{-1}(\overline{p_B})\bigr)

    `n0` noisy copies choose the class, and other copies bound its probability :math:`p_A` from below. The prediction
    of :math:`g` does not change within :math:`r`, with probability :math:`1 - \alpha` for each image; where the bound
    does not exceed one half the answer is ABSTAIN. Noisy copies are not clipped to [0, 1].

    Args:
        sigma: standard deviation of the noise in [0, 1] pixel units.
        n: copies that bound the probability; with adaptive `sampling` at most so many.
        n0: copies that choose the class.
        alpha: probability that a certificate is wrong.
        batch: rows of a forward pass; copies of several images share passes.
        sampling: when to stop: `Fixed`, `FullRadius` or `Decision`.
        bound: `one_vs_rest` bounds :math:`p_A` and takes :math:`1 - p_A` for :math:`p_B`; `two_class` bounds both.

    Reference:
        Cohen, Rosenfeld, Kolter, Certified Adversarial Robustness via Randomized Smoothing, ICML 2019,
        arXiv:1902.02918, section 3.2. Their algorithm bounds :math:`p_A` alone; theorem 1 has both.
    """

    sigma: float
    n: int = 100_000
    n0: int = 100
    alpha: float = 0.001
    batch: int = 256
    sampling: Sampling = FIXED
    bound: Bound = "one_vs_rest"

    norm: ClassVar[str] = "l2"
    smoothed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check("sigma", self)

    @property
    def noise(self) -> Noise:
        """The noise."""
        return Gaussian(self.sigma)

    __call__ = certify
    predict = predict_class


@dataclass(frozen=True, kw_only=True)
class LaplaceSmoothing:
    r"""Smoothing with Laplace noise, of density :math:`e^{-|t|/\lambda} / 2\lambda` in every pixel: :math:`\ell_1`.

    .. math:: r = -\lambda \log\bigl(2\,(1 - \underline{p_A})\bigr)

    Args:
        scale: :math:`\lambda` in [0, 1] pixel units; the standard deviation is :math:`\sqrt2\, \lambda`.
        n, n0, alpha, batch, sampling, bound: as in `GaussianSmoothing`.

    Reference:
        Teng, Lee, Yuan, l1 Adversarial Robustness Certificates: a Randomized Smoothing Approach, 2020.
    """

    scale: float
    n: int = 100_000
    n0: int = 100
    alpha: float = 0.001
    batch: int = 256
    sampling: Sampling = FIXED
    bound: Bound = "one_vs_rest"

    norm: ClassVar[str] = "l1"
    smoothed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check("scale", self)

    @property
    def noise(self) -> Noise:
        """The noise."""
        return Laplace(self.scale)

    __call__ = certify
    predict = predict_class


@dataclass(frozen=True, kw_only=True)
class UniformSmoothing:
    r"""Smoothing with noise uniform on :math:`[-w, w]` in every pixel: :math:`\ell_1`, radii below :math:`w`.

    .. math:: r = 2 w \bigl(\underline{p_A} - \tfrac12\bigr)

    Args:
        width: :math:`w` in [0, 1] pixel units; the standard deviation is :math:`w / \sqrt3`.
        n, n0, alpha, batch, sampling, bound: as in `GaussianSmoothing`.

    Reference:
        Lee et al., Tight Certificates of Adversarial Robustness for Randomly Smoothed Classifiers, NeurIPS 2019,
        arXiv:1906.04948. Yang et al., Randomized Smoothing of All Shapes and Sizes, ICML 2020, arXiv:2002.08118.
    """

    width: float
    n: int = 100_000
    n0: int = 100
    alpha: float = 0.001
    batch: int = 256
    sampling: Sampling = FIXED
    bound: Bound = "one_vs_rest"

    norm: ClassVar[str] = "l1"
    smoothed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check("width", self)

    @property
    def noise(self) -> Noise:
        """The noise."""
        return Uniform(self.width)

    __call__ = certify
    predict = predict_class


Smoothing = GaussianSmoothing | LaplaceSmoothing | UniformSmoothing
"""The methods; they share all fields but the first."""
