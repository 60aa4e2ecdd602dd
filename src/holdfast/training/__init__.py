"""Training: the loop, checkpoints and model selection."""

from holdfast.training.cost import Cost
from holdfast.training.loop import fit
from holdfast.training.records import Epoch, Preparation, Step

__all__ = ["Cost", "Epoch", "Preparation", "Step", "fit"]
