"""What training minimises: each maps model and batch to named terms."""

from holdfast.objectives.adversarial import Adversarial
from holdfast.objectives.noisy import CleanAndNoisy, Noisy, Stability
from holdfast.objectives.standard import Standard
from holdfast.types import Objective

OBJECTIVES: dict[str, type[Objective]] = {
    "standard": Standard,
    "noisy": Noisy,
    "clean_and_noisy": CleanAndNoisy,
    "stability": Stability,
    "adversarial": Adversarial,
}

__all__ = ["OBJECTIVES", "Adversarial", "CleanAndNoisy", "Noisy", "Stability", "Standard"]
