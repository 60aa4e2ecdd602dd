"""Classifiers made of classifiers; each is an ordinary classifier for attacks, certificates and analyses."""

from holdfast.ensembles.composite import AdaptiveComposite, Composite
from holdfast.ensembles.mixing import GradientRatio, LocalBias, Mixing, Probability, RobustTransform, strength_of
from holdfast.ensembles.neighbours import NearestNeighbours
from holdfast.ensembles.policy import Policy

__all__ = [
    "AdaptiveComposite",
    "Composite",
    "GradientRatio",
    "LocalBias",
    "Mixing",
    "NearestNeighbours",
    "Policy",
    "Probability",
    "RobustTransform",
    "strength_of",
]
