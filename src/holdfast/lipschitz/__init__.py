"""Networks with a known Lipschitz constant: orthogonal layers, moments under noise, margins and bounds."""

from holdfast.lipschitz.activations import GroupSort, Householder
from holdfast.lipschitz.bound import LipschitzBound, lipschitz_bound
from holdfast.lipschitz.convolution import Downsampling, OrthogonalConvolution
from holdfast.lipschitz.dense import OrthogonalDense
from holdfast.lipschitz.export import export
from holdfast.lipschitz.lower import lipschitz_lower
from holdfast.lipschitz.margins import MarginBound, margin_bound, margin_growth
from holdfast.lipschitz.moments import Moments, propagate
from holdfast.lipschitz.polar import bjorck, orthogonalise
from holdfast.lipschitz.radii import (
    ALPHA,
    correct_probability,
    correct_probability_integral,
    margin_radius,
    smoothed_margin,
    smoothed_margin_integral,
    zhen_radius,
)
from holdfast.lipschitz.tally import LayerBound

__all__ = [
    "ALPHA",
    "Downsampling",
    "GroupSort",
    "Householder",
    "LayerBound",
    "LipschitzBound",
    "MarginBound",
    "Moments",
    "OrthogonalConvolution",
    "OrthogonalDense",
    "bjorck",
    "correct_probability",
    "correct_probability_integral",
    "export",
    "lipschitz_bound",
    "lipschitz_lower",
    "margin_bound",
    "margin_growth",
    "margin_radius",
    "orthogonalise",
    "propagate",
    "smoothed_margin",
    "smoothed_margin_integral",
    "zhen_radius",
]
