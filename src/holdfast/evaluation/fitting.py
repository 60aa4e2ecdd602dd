"""Forward passes in pieces that fit into memory, for methods that ask about many rows for each image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from holdfast.halving import BatchSize
from holdfast.queries import narrow
from holdfast.types import Classifier


class Fitting:
    """A classifier that gets fewer rows at once from the moment that memory runs out.

    Only passes without gradients are cut, such as those over noisy copies, proposals or candidates: the logits of a row
    do not depend on the others. A graph would need as much memory in pieces, so that such a pass fails and the batch is
    repeated with fewer images. Nor is a classifier cut that keeps something per example, see `narrow`.

    Args:
        model: the classifier.
        batch_size: rows at once, shared with the batches.
    """

    def __init__(self, model: Classifier, batch_size: BatchSize) -> None:
        self._model = model
        self._batch_size = batch_size

    def __call__(self, x: Tensor) -> Tensor:
        """Logits."""
        if torch.is_grad_enabled() or len(x) < 2 or hasattr(self._model, "narrow"):
            return self._model(x)

        def ask(rows: Sequence[int]) -> Tensor:
            return self._model(x[rows[0] : rows[-1] + 1])

        pieces = [logits for _, logits in self._batch_size.over(range(len(x)), ask, usual=len(x))]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    @property
    def watched(self) -> Classifier:
        """The classifier inside."""
        return self._model

    def watching(self, model: Classifier) -> Fitting:
        """The same for another classifier."""
        return Fitting(model, self._batch_size)

    def narrow(self, selection: Tensor) -> Fitting:
        """The same for a selection of the batch."""
        return Fitting(narrow(self._model, selection), self._batch_size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)
