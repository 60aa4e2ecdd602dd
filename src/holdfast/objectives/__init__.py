"""What training minimises: each maps model and batch to named terms."""

from holdfast.objectives.adversarial import Adversarial
from holdfast.objectives.hinge import MulticlassHinge, TruncatedMargin
from holdfast.objectives.jensen_shannon import JensenShannon
from holdfast.objectives.noisy import CleanAndNoisy, Noisy, Stability
from holdfast.objectives.radius import MCR, MSCR, Zhen
from holdfast.objectives.smoothed import SmoothedCrossEntropy
from holdfast.objectives.standard import Standard
from holdfast.types import Objective

OBJECTIVES: dict[str, type[Objective]] = {
    "standard": Standard,
    "noisy": Noisy,
    "clean_and_noisy": CleanAndNoisy,
    "stability": Stability,
    "adversarial": Adversarial,
    "jensen_shannon": JensenShannon,
    "mscr": MSCR,
    "mcr": MCR,
    "zhen": Zhen,
    "multiclass_hinge": MulticlassHinge,
    "truncated_margin": TruncatedMargin,
    "smoothed_cross_entropy": SmoothedCrossEntropy,
}

__all__ = [
    "MCR",
    "MSCR",
    "OBJECTIVES",
    "Adversarial",
    "CleanAndNoisy",
    "JensenShannon",
    "MulticlassHinge",
    "Noisy",
    "SmoothedCrossEntropy",
    "Stability",
    "Standard",
    "TruncatedMargin",
    "Zhen",
]
