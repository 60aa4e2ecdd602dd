"""What all checks of one evaluation share, and how a check is named in the ledger."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import polars as pl
import torch
from torch import Tensor

from holdfast.attacks.persistence import goes_to_the_end
from holdfast.attacks.starting import Pool
from holdfast.checks import Check, is_attack, is_certifier
from holdfast.data.dataset import Split
from holdfast.evaluation.batch import Row, run_batch
from holdfast.evaluation.fitting import Fitting
from holdfast.evaluation.gallery import keep_images
from holdfast.evaluation.source import with_source
from holdfast.evaluation.starting import first_of_each_class, refuse_starting_images
from holdfast.evaluation.subject import Subject
from holdfast.halving import BatchSize, Halved
from holdfast.hierarchy import Hierarchy, needs_hierarchy, with_hierarchy
from holdfast.lipschitz.margins import BoundsCache
from holdfast.recipe.plain import describe
from holdfast.recipe.schema import EvaluateRecipe
from holdfast.results.ledger import OF_HIERARCHIES, SCHEMA, Ledger
from holdfast.rng import Streams
from holdfast.traits import traits_of
from holdfast.types import Attack
from holdfast.wrappers import Deadline

Result = TypeVar("Result")

LONG = 16
"""Examples in a block of a certificate by sampling, at most: each may take a hundred thousand forward passes."""


@dataclass(frozen=True)
class Block:
    """A piece of work done now, done earlier, or left out.

    Args:
        check: its check.
        done: examples settled so far, over all checks, once for every component of a composed attack.
        total: what `done` will be.
        rows: of the examples that are now finished with the check; None while it is under way or if it left no rows.
        stored: whether the ledger had it already.
        not_run: what the budget left out, by check and component: on how many examples.
        halved: how many images are worked on at once from now on, if memory ran out on the way; rows are the same.
    """

    check: str
    done: int
    total: int
    rows: pl.DataFrame | None = None
    stored: bool = False
    not_run: Mapping[str, int] = field(default_factory=dict)
    halved: Halved | None = None


@dataclass(frozen=True)
class Setting:
    """Who is evaluated on what, and how.

    Args:
        subject: the model.
        split: the examples.
        how: sizes, order and budget.
        batch_size: images at once, for all checks.
        seed: of everything random.
        until: when the budget is spent, on the clock `time.monotonic`.
        ledger: where rows go.
        gallery: where images go.
        points: where the perturbed images of all examples go.
    """

    subject: Subject
    split: Split
    how: EvaluateRecipe
    batch_size: BatchSize
    seed: int = 0
    until: float = math.inf
    ledger: Ledger | None = None
    gallery: Path | None = None
    points: Path | None = None

    @cached_property
    def bounds(self) -> BoundsCache:
        """Lipschitz bounds of the model, as far as they were asked for; it does not change."""
        return {}

    @cached_property
    def _pool(self) -> Pool:
        split = self.split.select(self.order)
        model = Deadline(Fitting(self.subject.model, self.batch_size), self.until)
        return first_of_each_class(model, split, self.how.batch_size)

    def pool(self) -> Pool:
        """Images that decision-based attacks start from: the same for all blocks, made when an attack asks for them."""
        return self._pool

    @cached_property
    def order(self) -> Tensor:
        """Rows of the split in the order of their example indices; a place is a position in it."""
        return self.split.index.argsort(stable=True)

    @cached_property
    def examples(self) -> str:
        """A name for the set of examples."""
        return hashlib.blake2b(self.split.index[self.order].numpy().tobytes(), digest_size=8).hexdigest()

    def blocks(self, size: int | None = None) -> list[range]:
        """The places of each block of this size (default: the recipe's): work that no order or resume point changes."""
        size, count = size or self.how.block, len(self.order)
        return [range(start, min(start + size, count)) for start in range(0, count, size)]

    def batches(
        self, places: Sequence[int], work: Callable[[Split], Result], *, finer: int = 1
    ) -> Iterator[tuple[Sequence[int], Result]]:
        """Do the work on the examples of these places, batch by batch, see `BatchSize.over`; places and results."""

        def on_examples(piece: Sequence[int]) -> Result:
            return work(self.split.select(self.order[list(piece)]))

        return self.batch_size.over(places, on_examples, finer=finer)

    def run(self, check: Check, part: Split, rng: Streams) -> tuple[list[Row], Tensor, Tensor]:
        """A row for each example of a batch, its images and the changed ones, see `run_batch`."""
        return run_batch(
            self.subject.model, part, check, rng, until=self.until, pool=self.pool, batch_size=self.batch_size
        )

    def streams(self, part: Split) -> Streams:
        """Random numbers of each example."""
        return Streams(self.seed, "check", part.index)


@dataclass(frozen=True)
class Named:
    """A check with its names.

    Args:
        check: the method.
        method: its name.
        label: readable, unique in a ledger.
        params: its fields as JSON.
        key: of its parts in the ledger: who was checked with what on which examples.
        block: examples in each of its blocks.
    """

    check: Check
    method: str
    label: str
    params: str
    key: str
    block: int

    @classmethod
    def of(cls, check: Check, setting: Setting) -> Named:
        """The check in this setting."""
        refuse_starting_images(check)
        method, label, params = describe(check, Check)
        long = is_certifier(check) and check.smoothed  # type: ignore[union-attr]
        block = min(setting.how.block, LONG) if long else setting.how.block
        check, source = with_source(check, setting.subject, setting.split, setting.seed)
        if needs_hierarchy(check):
            check = with_hierarchy(check, setting.subject.hierarchy, "checks")
            source = (*source, cast(Hierarchy, setting.subject.hierarchy).digest)
        words = (setting.subject.hash, method, params, str(setting.seed), str(block), setting.examples, *source)
        digest = hashlib.blake2b("\0".join(words).encode(), digest_size=8).hexdigest()
        return cls(check, method, label, params, f"{setting.subject.weights}-{digest}", block)

    def part(self, number: int) -> str:
        """Name of the part of a block."""
        return f"{self.key}-{number:06d}"

    def points(self, number: int, setting: Setting) -> Path | None:
        """The file of the perturbed images of a block, if they are kept; only attacks have any."""
        return setting.points / f"{self.part(number)}.npy" if setting.points and is_attack(self.check) else None

    def frame(self, rows: Sequence[Row], setting: Setting) -> pl.DataFrame:
        """Rows as the ledger has them."""
        subject = setting.subject
        whole: dict[str, Any] = {
            "run": subject.run, "weights": subject.weights, "weights_hash": subject.hash[:12],
            "check": self.label, "method": self.method, "params": self.params, "seed": setting.seed,
            **traits_of(self.check).columns(),
        }  # fmt: skip
        if setting.subject.hierarchy is None:
            whole |= dict.fromkeys(OF_HIERARCHIES)
        elif is_attack(self.check):
            whole["to_the_end"] = goes_to_the_end(cast(Attack, self.check))
        return pl.DataFrame([{**row, **whole} for row in rows], schema=SCHEMA)

    def keep_images(self, setting: Setting, x: Tensor, z: Tensor, rows: Sequence[Row]) -> None:
        """Put images in the gallery, if there is one."""
        if setting.gallery is not None and len(rows):
            path = self.images(setting.gallery)
            with torch.no_grad():
                before = Fitting(setting.subject.model, setting.batch_size)(x).argmax(1)
            keep_images(path, before, x, z, rows, check=self.label, weights=setting.subject.weights)

    def images(self, gallery: Path) -> Path:
        """The file of its images."""
        return gallery / f"{self.key}.npz"
