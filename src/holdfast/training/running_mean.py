"""The mean of the weights over the steps of training."""

from __future__ import annotations

import copy

import torch
from torch import nn


class RunningMean:
    """A running mean of a network's weights; other tensors (counters, statistics) are copied.

    Args:
        model: whose weights it starts from.
        decay: what the mean keeps of itself in each step.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """After a step."""
        averaged = {name for name, _ in model.named_parameters()}
        for name, tensor in model.state_dict().items():
            mine = self.model.state_dict()[name]
            mine.lerp_(tensor, 1 - self.decay) if name in averaged else mine.copy_(tensor)
