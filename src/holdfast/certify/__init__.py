"""Certificates: what provably holds within a radius."""

from holdfast.certify.margin import Margin
from holdfast.certify.mixture import MixtureMargin, MixtureSmoothing
from holdfast.certify.smoothed_margin import MarginEstimate, SmoothedMargin, estimate_margin, mean_logits
from holdfast.certify.smoothing import GaussianSmoothing, LaplaceSmoothing, UniformSmoothing
from holdfast.types import Certifier

CERTIFIERS: dict[str, type[Certifier]] = {
    "margin": Margin,
    "smoothed_margin": SmoothedMargin,
    "smoothing": GaussianSmoothing,
    "laplace_smoothing": LaplaceSmoothing,
    "uniform_smoothing": UniformSmoothing,
    "mixture_margin": MixtureMargin,
    "mixture_smoothing": MixtureSmoothing,
}

__all__ = [
    "CERTIFIERS",
    "GaussianSmoothing",
    "LaplaceSmoothing",
    "Margin",
    "MarginEstimate",
    "MixtureMargin",
    "MixtureSmoothing",
    "SmoothedMargin",
    "UniformSmoothing",
    "estimate_margin",
    "mean_logits",
]
