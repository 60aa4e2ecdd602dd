"""Stopping in time, in the middle of whatever an attack is doing."""

from __future__ import annotations

import math
import time
from typing import Any

from torch import Tensor

from holdfast.queries import narrow
from holdfast.types import Classifier


class OutOfTimeError(Exception):
    """The budget is spent; the batch under way is lost, what was written is not."""


class Deadline:
    """A classifier that answers until a moment of `time.monotonic`, and raises `OutOfTimeError` after it.

    Args:
        model: the classifier.
        until: the moment; infinity for never.
    """

    def __init__(self, model: Classifier, until: float) -> None:
        self._model = model
        self._until = until

    def __call__(self, x: Tensor) -> Tensor:
        """Logits."""
        if time.monotonic() >= self._until:
            raise OutOfTimeError
        return self._model(x)

    @property
    def watched(self) -> Classifier:
        """The classifier inside."""
        return self._model

    def watching(self, model: Classifier) -> Deadline:
        """The same moment for another classifier."""
        return Deadline(model, self._until)

    def narrow(self, selection: Tensor) -> Deadline:
        """The same for a selection of the batch."""
        return Deadline(narrow(self._model, selection), self._until)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def until(budget: float | None) -> float:
    """When a budget of so many seconds that starts now is spent."""
    return math.inf if budget is None else time.monotonic() + budget
