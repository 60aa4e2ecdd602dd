"""Classifiers built from classifiers; each is an ordinary classifier for attacks, certificates and analyses."""

from holdfast.ensembles.average import Ensemble
from holdfast.ensembles.composite import AdaptiveComposite, Composite
from holdfast.ensembles.defences import JPEG, BitDepth, Defended, FeatureDistillation, GaussianVotes, InputDefence
from holdfast.ensembles.har import HAR
from holdfast.ensembles.mixing import GradientRatio, LocalBias, Probability, strength_of
from holdfast.ensembles.neighbours import NearestNeighbours
from holdfast.ensembles.of_runs import (
    AdaptiveCompositeOfRuns,
    CompositeOfRuns,
    DefendedRun,
    HAROfRuns,
    Neighbours,
    OfRuns,
)
from holdfast.ensembles.policy import Policy
from holdfast.ensembles.shared_har import HierarchicalHead, SharedHAR
from holdfast.ensembles.transform import RobustTransform
from holdfast.ensembles.transform_fit import FittedTransform, TransformFit, fit_margins, fit_transform
from holdfast.families import ARCHITECTURES, DEFENCES, MIXINGS
from holdfast.types import Mixing

__all__ = [
    "ARCHITECTURES",
    "DEFENCES",
    "HAR",
    "JPEG",
    "MIXINGS",
    "AdaptiveComposite",
    "AdaptiveCompositeOfRuns",
    "BitDepth",
    "Composite",
    "CompositeOfRuns",
    "Defended",
    "DefendedRun",
    "Ensemble",
    "FeatureDistillation",
    "FittedTransform",
    "GaussianVotes",
    "GradientRatio",
    "HAROfRuns",
    "HierarchicalHead",
    "InputDefence",
    "LocalBias",
    "Mixing",
    "NearestNeighbours",
    "Neighbours",
    "OfRuns",
    "Policy",
    "Probability",
    "RobustTransform",
    "SharedHAR",
    "TransformFit",
    "fit_margins",
    "fit_transform",
    "strength_of",
]
