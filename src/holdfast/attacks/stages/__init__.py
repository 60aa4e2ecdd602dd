"""Stages of transfer attacks: each changes the direction that `TransferLoop` climbs along."""

from holdfast.attacks.stages.bpa import BPA
from holdfast.attacks.stages.input_diversity import InputDiversity
from holdfast.attacks.stages.linbp import LinBP
from holdfast.attacks.stages.loss_ensemble import LossEnsemble
from holdfast.attacks.stages.momentum import Momentum
from holdfast.attacks.stages.reverse_perturbation import ReversePerturbation
from holdfast.attacks.stages.scale_copies import ScaleCopies
from holdfast.attacks.stages.skip_gradient import SkipGradient
from holdfast.attacks.stages.stage import Climb, Slope, Stage
from holdfast.attacks.stages.translation_kernel import TranslationKernel
from holdfast.attacks.stages.variance import Variance
from holdfast.families import STAGES

__all__ = [
    "BPA",
    "STAGES",
    "Climb",
    "InputDiversity",
    "LinBP",
    "LossEnsemble",
    "Momentum",
    "ReversePerturbation",
    "ScaleCopies",
    "SkipGradient",
    "Slope",
    "Stage",
    "TranslationKernel",
    "Variance",
]
