"""Training of a head alone: features stay as they are, to the bit."""

from __future__ import annotations

from typing import Any

from torch import nn

from holdfast.errors import RecipeError
from holdfast.recipe.schema import Freeze


class Frozen:
    """The parts of a network that are not trained: no gradient for their weights, and evaluation mode throughout.

    Evaluation mode keeps the statistics of BatchNorm, and makes the features of an image the same in every epoch.

    Args:
        model: the network; its weights stop asking for gradients here.
        what: `features`, all but the head; None for nothing.

    Raises:
        RecipeError: if the network has no head.
    """

    def __init__(self, model: nn.Module, what: Freeze | None) -> None:
        self.head: nn.Module | None = None if what is None else _head(model)
        self.modules: list[nn.Module] = []
        if self.head is not None:
            kept = set(self.head.modules())
            self.modules = [one for one in model.modules() if one not in kept and kept.isdisjoint(one.modules())]
            trained = set(self.head.parameters())
            for weight in model.parameters():
                weight.requires_grad_(weight in trained)

    def train(self, model: nn.Module) -> None:
        """Put a network in train mode, all but the parts that are frozen; it may be wrapped."""
        model.train()
        for module in self.modules:
            module.training = False


def _head(model: Any) -> nn.Module:
    head = getattr(model, "head", None)
    if not isinstance(head, nn.Module) or not any(True for _ in head.parameters()):
        raise RecipeError(f"train.freeze: expected a network with a head to train, got {type(model).__name__}")
    return head
