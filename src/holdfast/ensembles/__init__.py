"""Classifiers made of classifiers; each is an ordinary classifier for attacks, certificates and analyses."""

from holdfast.ensembles.composite import AdaptiveComposite, Composite
from holdfast.ensembles.mixing import GradientRatio, LocalBias, Mixing, Probability, RobustTransform, strength_of
from holdfast.ensembles.neighbours import NearestNeighbours
from holdfast.ensembles.of_runs import (
    ARCHITECTURES,
    MIXINGS,
    AdaptiveCompositeOfRuns,
    CompositeOfRuns,
    Neighbours,
    OfRuns,
)
from holdfast.ensembles.policy import Policy

__all__ = [
    "ARCHITECTURES",
    "MIXINGS",
    "AdaptiveComposite",
    "AdaptiveCompositeOfRuns",
    "Composite",
    "CompositeOfRuns",
    "GradientRatio",
    "LocalBias",
    "Mixing",
    "NearestNeighbours",
    "Neighbours",
    "OfRuns",
    "Policy",
    "Probability",
    "RobustTransform",
    "strength_of",
]
