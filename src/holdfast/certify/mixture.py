"""Certificates of mixed probabilities, which need a proof about the robust classifier alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Literal

import torch
from torch import Tensor

from holdfast.certify.margin import bounded_logits, check_constant
from holdfast.certify.mixture_radii import margin_mixture_radius
from holdfast.certify.smoothing import GaussianSmoothing
from holdfast.ensembles.composite import Composite
from holdfast.ensembles.mixing import Probability
from holdfast.errors import ModelError
from holdfast.lipschitz.rounding import ELEMENTARY, gamma, outward
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.types import ABSTAIN, Certificate, Classifier
from holdfast.wrappers import behind, network


@dataclass(frozen=True, kw_only=True)
class MixtureMargin:
    r"""For a robust classifier with a known Lipschitz constant: see `mixture_radii.margin_mixture_radius`.

    As that of `Margin`, the certificate holds in exact arithmetic of the weights as they are stored, by the same bounds
    of pairs of logits and of their rounding.

    Args:
        norm: of distances.
        constant: :math:`K_p` of the robust classifier if it is known otherwise; None computes it from the weights.

    Reference:
        Bai, Anderson, Kim, Sojoudi, Improving the Accuracy-Robustness Trade-off of Classifiers via Adaptive Smoothing,
        arXiv:2301.12554, section 4. Differs: margins of logits are Lipschitz, not each probability, which proves more.
    """

    norm: Literal["l1", "l2", "linf"] = "l2"
    constant: float | None = None

    def __post_init__(self) -> None:
        check_constant(self.constant)

    @property
    def smoothed(self) -> bool:
        """It is about the composite itself."""
        return False

    @in_evaluation_mode
    def __call__(self, model: Classifier, x: Tensor, *, rng: Streams | None = None) -> Certificate:
        """Certificate of each example; what the composite computes counts only where its own rounding decides."""
        if not len(x):
            return Certificate.of_nothing(x)
        mixture = _mixture(model, "mixture_margin")
        if mixture.mixing.transform is not None:
            raise ModelError("mixture_margin: expected robust logits as they are; a transform changes their constants")
        bounded = bounded_logits(mixture.robust, x, self.norm, self.constant)
        with torch.no_grad():
            mixed = model(x).argmax(1)
        surer = outward(1 / mixture.mixing.temperature)
        scaled = (bounded.logits / mixture.mixing.temperature, surer * bounded.growth, mixture.share)
        radius = margin_mixture_radius(*scaled, surer * bounded.rounding + _rounded(bounded.logits, surer))
        prediction = bounded.logits.argmax(1)
        radius = torch.where(mixed.to(prediction) == prediction, radius, 0.0)
        return Certificate(torch.where(radius > 0, prediction, ABSTAIN).to(x.device), radius)


def _rounded(logits: Tensor, factor: float) -> Tensor:
    """How far a difference of two logits may be off after they were multiplied, (N,)."""
    return gamma(ELEMENTARY) * factor * logits.abs().amax(1)


@dataclass(frozen=True, kw_only=True)
class MixtureSmoothing:
    r"""For a robust classifier that is smoothed by Gaussian noise: a certificate in :math:`\ell_2`.

    It is about :math:`(1 - a)\,\mathrm{softmax}(g(x)) + a\,P(h(x + \epsilon) = \cdot)`. A certificate :math:`r` of the
    smoothed :math:`h` says that its class has :math:`p \ge \Phi((r - d) / \sigma)` at a distance :math:`d`, and the
    mixture keeps the class while :math:`a\,p > 1/2`: within :math:`r - \sigma\,\Phi^{-1}(1 / 2a)`, with the same
    confidence.

    Args:
        smoothing: how the robust classifier is smoothed; with the bound `one_vs_rest`.

    Reference:
        Bai, Anderson, Kim, Sojoudi, Improving the Accuracy-Robustness Trade-off of Classifiers via Adaptive Smoothing,
        arXiv:2301.12554, section 4. Differs: its :math:`\sigma\,\Phi^{-1}(a\,\Phi(r / \sigma))` is never larger.
    """

    smoothing: GaussianSmoothing = field(default_factory=lambda: GaussianSmoothing(sigma=0.25))

    def __post_init__(self) -> None:
        if self.smoothing.bound != "one_vs_rest":
            raise ValueError(f"smoothing.bound must be one_vs_rest, got {self.smoothing.bound}")

    @property
    def norm(self) -> str:
        """Distances are Euclidean."""
        return "l2"

    @property
    def smoothed(self) -> bool:
        """It is about a composite whose robust part is smoothed."""
        return True

    @in_evaluation_mode
    def __call__(self, model: Classifier, x: Tensor, *, rng: Streams | None = None) -> Certificate:
        """Certificate of each example."""
        share = _mixture(model, "mixture_smoothing").share
        alone = self.smoothing(behind(model, lambda inner: inner.robust), x, rng=rng)
        lost = outward(self.smoothing.sigma * NormalDist().inv_cdf(outward(0.5 / share)), ELEMENTARY)
        radius = (alone.radius.double() - lost).clamp(min=0)
        return Certificate(torch.where(radius > 0, alone.prediction, ABSTAIN), radius, alone.samples)


@dataclass(frozen=True)
class _Mixture:
    robust: torch.nn.Module
    mixing: Probability
    share: float


def _mixture(model: Classifier, who: str) -> _Mixture:
    """The composite behind what watches it, or one line on why nothing is proved."""
    inner = network(model)
    if not isinstance(inner, Composite):
        raise ModelError(f"{who}: expected a composite of fixed strength, got {type(inner).__name__}")
    if not isinstance(inner.mixing, Probability):
        kind = type(inner.mixing).__name__
        raise ModelError(f"{who}: expected mixed probabilities, of which something is proved, got {kind}")
    share = 1.0 if math.isinf(inner.strength) else inner.strength / (1 + inner.strength)
    if not share > 0.5:
        raise ModelError(
            f"{who}: expected a strength above 1, so that the robust classifier decides, got {inner.strength}"
        )
    return _Mixture(inner.robust, inner.mixing, share)
