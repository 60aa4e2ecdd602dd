"""What training minimises: each maps model and batch to named terms."""

from holdfast.families import OBJECTIVES
from holdfast.objectives.adversarial import Adversarial
from holdfast.objectives.alignment import Align, Alignment
from holdfast.objectives.awp import AWP
from holdfast.objectives.center import Center
from holdfast.objectives.cure import CURE
from holdfast.objectives.discriminative import Discriminative, TermWeights
from holdfast.objectives.embedding_distances import EGA, NCE, RKD, Hint
from holdfast.objectives.fast import Alarm, Fast
from holdfast.objectives.foar import FOAR
from holdfast.objectives.free import Free
from holdfast.objectives.hierarchical import HierarchicalCrossEntropy, SeverityLabels
from holdfast.objectives.hinge import MulticlassHinge, TruncatedMargin
from holdfast.objectives.input_gradient import InputGradient
from holdfast.objectives.jacobian import Jacobian
from holdfast.objectives.jensen_shannon import JensenShannon
from holdfast.objectives.large_margin import Annealing, LargeMargin
from holdfast.objectives.llr import LLR
from holdfast.objectives.mart import MART
from holdfast.objectives.mma import MMA
from holdfast.objectives.noisy import CleanAndNoisy, Noisy, Stability
from holdfast.objectives.passes import Passes
from holdfast.objectives.policy import PolicyTraining
from holdfast.objectives.policy_loss import PolicyLoss
from holdfast.objectives.radius import MCR, MSCR, Zhen
from holdfast.objectives.sam import SAM
from holdfast.objectives.smoothed import SmoothedCrossEntropy
from holdfast.objectives.soar import SOAR
from holdfast.objectives.standard import Standard
from holdfast.objectives.trades import TRADES

__all__ = [
    "AWP",
    "CURE",
    "EGA",
    "FOAR",
    "LLR",
    "MART",
    "MCR",
    "MMA",
    "MSCR",
    "NCE",
    "OBJECTIVES",
    "RKD",
    "SAM",
    "SOAR",
    "TRADES",
    "Adversarial",
    "Alarm",
    "Align",
    "Alignment",
    "Annealing",
    "Center",
    "CleanAndNoisy",
    "Discriminative",
    "Fast",
    "Free",
    "HierarchicalCrossEntropy",
    "Hint",
    "InputGradient",
    "Jacobian",
    "JensenShannon",
    "LargeMargin",
    "MulticlassHinge",
    "Noisy",
    "Passes",
    "PolicyLoss",
    "PolicyTraining",
    "SeverityLabels",
    "SmoothedCrossEntropy",
    "Stability",
    "Standard",
    "TermWeights",
    "TruncatedMargin",
    "Zhen",
]
