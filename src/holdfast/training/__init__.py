"""Training: the loop, checkpoints and model selection."""

from holdfast.training.loop import Epoch, Step, fit

__all__ = ["Epoch", "Step", "fit"]
