"""The objective of a recipe as the training loop runs it, with what it remembers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from holdfast.data.dataset import Split
from holdfast.errors import TrainingError
from holdfast.objectives.hooks import Hooks, hooks_of
from holdfast.objectives.threat_warmup import with_budget_share
from holdfast.rng import Streams
from holdfast.types import Classifier, Objective, Terms


class RunningObjective:
    """An objective with what it remembers, and with the budget that its adversary has by now.

    Args:
        settings: the objective of the recipe.
        model: the network that will be trained.
        classes: how many classes there are.
        data: the training images.
        device: where the work is done.
    """

    def __init__(
        self, settings: Objective, model: nn.Module, classes: int, data: Split, device: torch.device
    ) -> None:  # fmt: skip
        hooks = hooks_of(settings)
        self.settings, self.replays = settings, hooks.replays
        self.objective: Any = settings if hooks.start is None else hooks.start(model, classes, data.index)
        if isinstance(self.objective, nn.Module):
            self.objective.to(device)

    @property
    def hooks(self) -> Hooks:
        """Of the objective at work."""
        return hooks_of(self.objective)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams) -> Terms:
        """Terms of a batch."""
        terms: Terms = self.objective(model, x, y, rng=rng)
        if problem := _problem(terms):
            raise TrainingError(f"objective {type(self.settings).__name__}: {problem}")
        return terms

    def give_budget_share(self, share: float) -> None:
        """Multiply the full budget of the adversary; what is remembered is left alone."""
        objective = with_budget_share(self.settings, share)
        if isinstance(self.objective, nn.Module):
            self.objective.objective = objective  # type: ignore[assignment]
        else:
            self.objective = objective

    def state(self) -> dict[str, Any] | None:
        """What is remembered; None where nothing can be."""
        return self.objective.state_dict() if isinstance(self.objective, nn.Module) else None

    def resume(self, state: dict[str, Any] | None) -> None:
        """Remember what a state says."""
        if isinstance(self.objective, nn.Module):
            self.objective.load_state_dict(state)  # type: ignore[arg-type]


def _problem(terms: Any) -> str | None:
    """Why training cannot go on with what an objective returns."""
    if not isinstance(terms, Terms):
        return f"expected Terms; got {type(terms).__name__}"
    tensors: dict[str, Any] = {"total": terms.total, **terms.parts}
    for name, part in tensors.items():
        if not isinstance(part, Tensor):
            return f"expected {name} to be a scalar tensor; got {type(part).__name__}"
        if part.numel() != 1:
            return f"expected {name} to be a scalar tensor; got one of shape {tuple(part.shape)}"
    return None if terms.total.requires_grad else "expected a total that requires a gradient; got a detached one"
