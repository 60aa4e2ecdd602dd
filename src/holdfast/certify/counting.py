"""What a classifier takes noisy copies of images for, in counts."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from holdfast.certify.bounds import Integers, Tally
from holdfast.certify.copies import Copies
from holdfast.certify.noise import Noise
from holdfast.rng import Streams
from holdfast.types import Classifier


class Counter:
    """Counts of the classes of noisy copies, for one purpose; the arguments are those of `Copies`."""

    def __init__(self, model: Classifier, x: Tensor, noise: Noise, rng: Streams, batch: int) -> None:
        self._copies = Copies(model, x, noise, rng, batch)
        self._counts = torch.empty(len(x), 0, dtype=torch.int64, device=x.device)

    def up_to(self, rows: Integers, goals: Integers) -> Tensor:
        """Counts of the classes, (len(rows), K), when each of the rows has as many copies as its goal.

        An earlier goal of the same row must have been a multiple of a block.
        """
        for owners, logits in self._copies.answers(rows.tolist(), goals.tolist()):
            if not self._counts.shape[1]:
                self._counts = self._counts.new_zeros(len(self._counts), logits.shape[1])
            places = owners * logits.shape[1] + logits.argmax(1)
            self._counts.view(-1).index_add_(0, places, torch.ones_like(places))
        return self._counts[torch.from_numpy(rows).to(self._counts.device)]


def tally(counts: Tensor, classes: Tensor) -> Tally:
    """Counts (N, K) as seen from a class of each row."""
    top = counts.gather(1, classes[:, None])[:, 0]
    other = counts.scatter(1, classes[:, None], 0).amax(1)
    columns = (column.cpu().numpy().astype(np.float64) for column in (top, other, counts.sum(1)))
    return Tally(*columns)
