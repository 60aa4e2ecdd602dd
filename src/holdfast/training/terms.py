"""Terms of the steps of an epoch: refused where they are not finite, and summed for its record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from holdfast.errors import TrainingError
from holdfast.types import Terms


@dataclass
class Tally:
    """What the steps of the epoch under way have added up to.

    Args:
        sums: terms by name, times examples; and the number of `examples`.
        seconds: all time of the epoch.
        step_seconds: of it, what the steps took, without reading and augmenting images.
    """

    sums: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    step_seconds: float = 0.0

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Tally:
        """That of a training state."""
        return cls(state["sums"], state["seconds"], state.get("step_seconds", 0.0))

    def add(self, terms: Terms, examples: int) -> None:
        """The terms of a step."""
        for name, value in {"total": terms.total, **terms.parts}.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value.detach()) * examples
        self.sums["examples"] = self.sums.get("examples", 0.0) + examples

    def means(self) -> dict[str, float]:
        """Mean of each term over the examples."""
        examples = self.sums["examples"]
        return {name: total / examples for name, total in self.sums.items() if name != "examples"}


def require_finite(total: Tensor, step: str, index: Tensor, kept: str) -> None:
    """Refuse to step along the gradient of a loss that is not finite.

    Args:
        total: the loss.
        step: which run and step it is of.
        index: of the examples of the batch.
        kept: what is left of the training.

    Raises:
        TrainingError: saying where.
    """
    loss = float(total.detach())
    if not math.isfinite(loss):
        raise TrainingError(f"{step}: expected a finite loss, got {loss}; batch of examples {_some(index)}; {kept}")


def _some(index: Tensor) -> str:
    shown = ", ".join(str(int(i)) for i in index[:8])
    return f"{shown}, ... ({len(index)})" if len(index) > 8 else shown
