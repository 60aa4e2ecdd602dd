"""Certificates: what provably holds within a radius."""

from holdfast.certify.groups import GroupCertificate
from holdfast.certify.margin import Margin
from holdfast.certify.mixture import MixtureMargin, MixtureSmoothing
from holdfast.certify.smoothed_margin import MarginEstimate, SmoothedMargin, estimate_margin, mean_logits
from holdfast.certify.smoothing import GaussianSmoothing, LaplaceSmoothing, UniformSmoothing
from holdfast.families import CERTIFIERS

__all__ = [
    "CERTIFIERS",
    "GaussianSmoothing",
    "GroupCertificate",
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
