"""Some of the classes of another data set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.data.cifar import Cifar100
from holdfast.data.dataset import Dataset, Source
from holdfast.data.hierarchies import CIFAR5X5_GROUPS
from holdfast.data.views import relabelled
from holdfast.errors import DataError, unknown


@dataclass(frozen=True, kw_only=True)
class Selected:
    """The images of some classes of another data set, which are numbered anew; images keep their indices.

    Args:
        source: the other data set.
        classes: names of the classes, in their new order.
        name: of the data set.
    """

    source: Source
    classes: tuple[str, ...]
    name: str = "selected"

    def __post_init__(self) -> None:
        if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            raise ValueError(f"classes: expected two or more different names, got {list(self.classes)}")

    def __call__(self, root: Path | None = None) -> Dataset:
        """Read the other data set, and select."""
        whole = self.source(root)
        for name in self.classes:
            if name not in whole.classes:
                raise DataError(f"{self.name}: {whole.name}: {unknown(name, whole.classes)}")
        chosen = [[whole.classes.index(name)] for name in self.classes]
        train = None if whole.train is None else relabelled(whole.train, chosen)
        return Dataset(self.name, self.classes, train, relabelled(whole.test, chosen))


CIFAR5X5 = Selected(
    source=Cifar100(),
    classes=tuple(name for group in CIFAR5X5_GROUPS.levels["group"].values() for name in group),
    name="cifar5x5",
)
"""25 classes of CIFAR-100 in five groups, as in chapter 5 of the thesis of Ma."""
