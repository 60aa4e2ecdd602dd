"""The images of a run, cut as its recipe says."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.data import Split, first, split_validation, subset
from holdfast.recipe import DataRecipe


@dataclass(frozen=True)
class Splits:
    """The images of a run, cut as its recipe says."""

    name: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    fingerprint: str
    train: Split | None
    validation: Split | None
    test: Split

    @property
    def examples(self) -> str:
        """A name for the choice of test images."""
        return hashlib.sha256(self.test.index.numpy().tobytes()).hexdigest()[:16]

    def facts(self) -> dict[str, Any]:
        """What a report says about the data."""
        sizes = {name: len(split) if split else 0 for name, split in self._splits().items()}
        return {
            "name": self.name,
            "classes": list(self.classes),
            "shape": list(self.shape),
            "fingerprint": self.fingerprint,
            "examples": self.examples,
            **sizes,
        }

    def _splits(self) -> dict[str, Split | None]:
        return {"train": self.train, "validation": self.validation, "test": self.test}


def prepare(recipe: DataRecipe, seed: int, root: Path | None = None) -> Splits:
    """Read the data set and cut it: the subset first, validation out of it. The cut depends on the seed."""
    data = recipe.source(root)
    train, validation = data.train, None
    if train is not None and recipe.subset is not None:
        train = subset(train, recipe.subset, seed)
    if train is not None and recipe.validation:
        train, validation = split_validation(train, recipe.validation, seed)
    return Splits(
        data.name, data.classes, data.shape, data.fingerprint(), train, validation, _tested(data.test, recipe, seed)
    )


def _tested(test: Split, recipe: DataRecipe, seed: int) -> Split:
    """The images to measure on: all, the first so many in the order of their source, or a balanced draw."""
    if recipe.test_first is not None:
        return first(test, recipe.test_first)
    return test if recipe.test_subset is None else subset(test, recipe.test_subset, seed)
