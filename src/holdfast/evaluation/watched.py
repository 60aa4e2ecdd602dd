"""A look at every answer of a model, for methods that only count them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from holdfast.errors import ModelError
from holdfast.queries import narrow
from holdfast.types import Classifier


class Watched:
    """A classifier whose NaN logits are an error: counted, they would be votes for some class.

    Args:
        model: the classifier.
    """

    def __init__(self, model: Classifier) -> None:
        self._model = model

    def __call__(self, x: Tensor) -> Tensor:
        """Logits."""
        logits = self._model(x)
        if bad := int(logits.isnan().any(1).sum()):
            raise ModelError(f"the logits are NaN for {bad} of {len(x)} images, noisy copies included")
        return logits

    @property
    def watched(self) -> Classifier:
        """The classifier inside."""
        return self._model

    def watching(self, model: Classifier) -> Watched:
        """The same look at another classifier."""
        return Watched(model)

    def narrow(self, selection: Tensor) -> Watched:
        """The same for a selection of the batch."""
        return Watched(narrow(self._model, selection))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)
