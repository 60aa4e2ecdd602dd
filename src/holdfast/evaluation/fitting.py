"""Forward passes in pieces that fit into memory, for methods that ask about many rows for each image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.halving import BatchSize
from holdfast.wrappers import Wrapper


@dataclass(frozen=True, eq=False)
class Fitting(Wrapper):
    """A classifier that gets fewer rows at once from the moment that memory runs out.

    Only passes without gradients are cut, such as those over noisy copies, proposals or candidates: the logits of a row
    do not depend on the others. A graph would need as much memory in pieces, so that such a pass fails and the batch is
    repeated with fewer images. Nor is a classifier cut that keeps something per example, see `narrow`.

    Args:
        wrapped: the classifier.
        batch_size: rows at once, shared with the batches.
    """

    batch_size: BatchSize

    def __call__(self, x: Tensor) -> Tensor:
        """Logits."""
        if torch.is_grad_enabled() or len(x) < 2 or hasattr(self.wrapped, "narrow"):
            return self.wrapped(x)

        def ask(rows: Sequence[int]) -> Tensor:
            return self.wrapped(x[rows[0] : rows[-1] + 1])

        pieces = [logits for _, logits in self.batch_size.over(range(len(x)), ask, usual=len(x))]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)
