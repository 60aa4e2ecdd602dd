"""Noisy copies of images, put to a classifier in full passes, whatever images and copies there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from holdfast.certify.noise import Noise
from holdfast.certify.sampling import BLOCK
from holdfast.errors import ModelError
from holdfast.rng import Streams
from holdfast.types import Classifier
from holdfast.wrappers import narrow


class Copies:
    """Noisy copies for one purpose; those of other purposes are independent.

    Every image has a generator of its own, seeded by its stream and the purpose, that fills one block of copies after
    the other. So the copies of an image do not depend on what else is in the batch, nor on how many rows a pass has.

    Args:
        model: the classifier.
        x: the images, (N, ...).
        noise: what is added to them; the sum is not clipped.
        rng: a stream for each image.
        batch: rows of a forward pass.
    """

    def __init__(self, model: Classifier, x: Tensor, noise: Noise, rng: Streams, batch: int) -> None:
        self._model, self._x, self._noise, self._batch = model, x.detach(), noise, batch
        # torch's generator fills a block in a fifth of the time that Streams.normal takes
        self._generators = [torch.Generator(x.device).manual_seed(seed) for seed in rng.bits(1).flatten().tolist()]
        self._taken = [0] * len(x)

    @torch.no_grad()
    def answers(self, rows: list[int], goals: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Row numbers and logits of copies, until each of the rows has as many as its goal.

        An earlier goal of the same row must have been a multiple of a block.

        Raises:
            ModelError: if what comes is not a row of logits for each copy, or after the last pass if one was NaN.
        """
        spoilt = torch.zeros(len(self._x), dtype=torch.int64, device=self._x.device)
        for owners, z in self._passes(rows, goals):
            logits = narrow(self._model, owners)(z)
            if logits.dim() != 2 or len(logits) != len(z) or logits.shape[1] < 2:
                raise ModelError(f"expected logits of shape ({len(z)}, at least 2); got {tuple(logits.shape)}")
            spoilt.index_add_(0, owners, logits.isnan().any(1).long())
            yield owners, logits
        if bad := spoilt.nonzero()[:, 0].tolist():
            copies = int(spoilt[bad[0]])
            raise ModelError(
                f"the logits are NaN for {len(bad)} of {len(self._x)} examples, first at row {bad[0]} of the batch "
                f"({copies} of {self._taken[bad[0]]} noisy copies)"
            )

    def sums(self, n: int, measure: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Sums over the next `n` copies of each image of what is measured of logits and row numbers, float64."""
        total: Tensor | None = None
        for owners, logits in self.answers(list(range(len(self._x))), [taken + n for taken in self._taken]):
            values = measure(logits, owners).double()
            if total is None:
                total = values.new_zeros(len(self._x), *values.shape[1:])
            total.index_add_(0, owners, values)
        if total is None:
            raise ValueError(f"expected images and copies to sum over; got {len(self._x)} and {n}")
        return total

    def _passes(self, rows: list[int], goals: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Row numbers and noisy copies, `batch` at a time; a pass is read before the next one overwrites it."""
        left = sum(goals) - sum(self._taken[row] for row in rows)
        size, filled = min(self._batch, left), 0
        z = self._x.new_empty(size, *self._x.shape[1:])
        owners = torch.empty(size, dtype=torch.int64, device=self._x.device)
        for row, count, values in self._blocks(rows, goals):
            used = 0
            while used < count:
                part = min(count - used, size - filled)
                noise, here = values.narrow(0, used, part), z.narrow(0, filled, part)
                torch.add(self._x[row], noise, alpha=self._noise.scale, out=here)
                owners.narrow(0, filled, part).fill_(row)
                used, filled = used + part, filled + part
                if filled == size:
                    yield owners, z
                    left -= size
                    size, filled = min(size, left), 0
                    z, owners = z[:size], owners[:size]

    def _blocks(self, rows: list[int], goals: list[int]) -> Iterator[tuple[int, int, Tensor]]:
        """Row, number of copies and a block of noise of strength 1, which an image's last copies use in part."""
        values = self._x.new_empty(BLOCK, *self._x.shape[1:])
        for row, goal in zip(rows, goals, strict=True):
            while self._taken[row] < goal:
                self._noise.fill(values, self._generators[row])
                count = min(BLOCK, goal - self._taken[row])
                self._taken[row] += count
                yield row, count, values
