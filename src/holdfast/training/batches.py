"""Which images each step sees: a function of seed, epoch and number of the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.augment.soft import augmented
from holdfast.data.dataset import Split
from holdfast.recipe.schema import Recipe
from holdfast.rng import Streams, permutation


class Batches:
    """The batches of an epoch, in a new order each time.

    Args:
        recipe: its seed, batch size and augmentations.
        data: the training images.
        classes: how many classes there are.
    """

    def __init__(self, recipe: Recipe, data: Split, classes: int) -> None:
        self.recipe, self.data, self.classes = recipe, data, classes
        self._cuts = cuts(len(data), recipe.train.batch_size)
        self._shuffled: tuple[int, Tensor] | None = None

    def __len__(self) -> int:
        return len(self._cuts)

    def __call__(
        self, epoch: int, number: int, device: torch.device, share: slice = slice(None)
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Images, labels and indices of a batch or a share of it, augmented and on a device; indices stay here."""
        rows = self.rows(epoch, number)[share]
        x, y = self.data.batch(rows)
        index = self.data.index[rows]
        for place, augment in enumerate(self.recipe.data.augment):
            rng = Streams(self.recipe.seed, f"augment {place} in epoch {epoch}", index)
            x, y = augmented(augment, x, y, classes=self.classes, rng=rng)
        return x.to(device), y.to(device), index

    def ahead(self, epoch: int, number: int) -> Tensor:
        """Indices of the images that this batch and those after it see in the epoch."""
        rows = torch.cat([self.rows(epoch, later) for later in range(number, len(self))])
        return self.data.index[rows]

    def rows(self, epoch: int, number: int) -> Tensor:
        """Places of a batch's images in the training data."""
        if self._shuffled is None or self._shuffled[0] != epoch:
            order = permutation(len(self.data), self.recipe.seed, f"order of epoch {epoch}")
            self._shuffled = (epoch, order)
        return self._shuffled[1][self._cuts[number]]


def cuts(examples: int, size: int) -> list[slice]:
    """Slices of the order; a last batch of one example is dropped, since BatchNorm cannot learn from it."""
    slices = [slice(start, min(start + size, examples)) for start in range(0, examples, size)]
    return slices[:-1] if len(slices) > 1 and slices[-1].stop - slices[-1].start == 1 and size > 1 else slices
