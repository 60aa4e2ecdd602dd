"""The images of a run, cut as its recipe says."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.data.dataset import Split, first, split_validation, subset
from holdfast.data.views import view_of
from holdfast.errors import DataError
from holdfast.hierarchy import Hierarchy
from holdfast.recipe.schema import DataRecipe
from holdfast.runs.directory import Run


@dataclass(frozen=True)
class Splits:
    """The images of a run, cut as its recipe says.

    Args:
        name: of the data set.
        classes: names of the classes.
        shape: of an image.
        fingerprint: of the whole data set.
        train: images to train on.
        validation: images to select weights on.
        test: images to measure on.
        older: the test images that earlier versions drew, with the seed of the run; None where they are the same.
        kept: whether `test` are such images, kept because the run has results of them.
        test_seed: seed of the draw of test images, for whoever wants fewer of them.
        hierarchy: of the classes; None for none.
    """

    name: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    fingerprint: str
    train: Split | None
    validation: Split | None
    test: Split
    older: Split | None = None
    kept: bool = False
    test_seed: int = 0
    hierarchy: Hierarchy | None = None

    @property
    def examples(self) -> str:
        """A name for the choice of test images."""
        return hashlib.sha256(self.test.index.numpy().tobytes()).hexdigest()[:16]

    def as_recorded(self, run: Run) -> Splits:
        """The same with the older test images, if these are what the results of a run are about."""
        if self.older is None:
            return self
        older = replace(self, test=self.older, older=None, kept=True)
        recorded = run.info().get("data", {}).get("examples")
        if recorded is not None:
            return older if recorded == older.examples else self
        examples = run.ledger.examples()
        return older if examples <= _indices(older.test) and not examples <= _indices(self.test) else self

    def unknown(self, examples: set[int]) -> set[int]:
        """Those of some examples that are no test images."""
        return examples - _indices(self.test)

    def facts(self) -> dict[str, Any]:
        """The facts on the data that a report shows."""
        sizes = {name: len(split) if split else 0 for name, split in self._splits().items()}
        return {
            "name": self.name,
            "classes": list(self.classes),
            "shape": list(self.shape),
            "fingerprint": self.fingerprint,
            "examples": self.examples,
            **sizes,
            **({} if self.hierarchy is None else {"hierarchy": self.hierarchy.facts()}),
        }

    def _splits(self) -> dict[str, Split | None]:
        return {"train": self.train, "validation": self.validation, "test": self.test}


def prepare(recipe: DataRecipe, seed: int, root: Path | None = None) -> Splits:
    """Read the data set and cut it: the subset first, validation out of it, and the view of all parts last.

    Training and validation images depend on the seed, test images only on the recipe, so that results of several seeds
    are about the same images.
    """
    data = recipe.source(root)
    if recipe.hierarchy is not None:
        data = replace(data, hierarchy=recipe.hierarchy(data, recipe.source, root))
    train, validation = data.train, None
    if train is not None and recipe.subset is not None:
        train = subset(train, recipe.subset, seed)
    if train is not None and recipe.validation:
        train, validation = split_validation(train, recipe.validation, seed)
    test, older = _tested(data.test, recipe), None
    if recipe.test_subset is not None and seed != recipe.test_seed:
        older = subset(data.test, recipe.test_subset, seed)
    splits = Splits(
        data.name, data.classes, data.shape, data.fingerprint(), train, validation, test, older,
        test_seed=recipe.test_seed, hierarchy=data.hierarchy,
    )  # fmt: skip
    return splits if recipe.view is None else viewed(splits, recipe.view)


def viewed(splits: Splits, name: str) -> Splits:
    """The same images with the labels of a view, or those of them that have one; see `view_of`.

    Raises:
        DataError: if there is no such view, or no training image is in it.
    """
    view = view_of(name, splits.hierarchy)
    of = {part: None if split is None else view(split) for part, split in splits._splits().items()}
    if of["train"] is not None and not len(of["train"]):
        raise DataError(f"data.view {name}: expected training images of it; got none; take a larger subset")
    validation = of["validation"] if of["validation"] is not None and len(of["validation"]) else None
    test, older = of["test"], None if splits.older is None else view(splits.older)
    assert test is not None
    return replace(
        splits, classes=view.classes, train=of["train"], validation=validation, test=test, older=older, hierarchy=None
    )


def _tested(test: Split, recipe: DataRecipe) -> Split:
    """The images to measure on: all, the first so many in the order of their source, or a balanced draw."""
    if recipe.test_first is not None:
        return first(test, recipe.test_first)
    return test if recipe.test_subset is None else subset(test, recipe.test_subset, recipe.test_seed)


def _indices(split: Split) -> set[int]:
    return set(split.index.tolist())
