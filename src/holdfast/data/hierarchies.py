"""Hierarchies of the classes of published data sets, and how users state their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import yaml

from holdfast.data.cifar import COARSE, FINE, Cifar100
from holdfast.data.dataset import Dataset, Source
from holdfast.data.roots import existing
from holdfast.errors import DataError
from holdfast.files.regular import read_regular
from holdfast.hierarchy import Hierarchy, costs_of_mistakes, costs_of_overlapping, hierarchy_of
from holdfast.records import parse_record
from holdfast.yaml_text import load_yaml


class Grouping(Protocol):
    """Makes the hierarchy of the classes of a data set: a frozen dataclass."""

    def __call__(self, data: Dataset, source: Source, root: Path | None = None) -> Hierarchy:
        """The hierarchy of the classes of `data`, which was read from `source`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Table:
    """A hierarchy that is stated by the names of the classes.

    Args:
        levels: from fine to coarse: the groups of each level by name, each with a list of its classes.
        severity: what it costs to take an example of a class (row) for another (column), in the order of the classes;
            None for how many levels up two classes have a group in common.
        mistakes: costs of some mistakes instead, by class and prediction; all others cost 1.
        overlapping: groups that may overlap instead: mistakes cost 1 where class and prediction share no group, else 0.
    """

    levels: Mapping[str, Any] = field(default_factory=dict)
    severity: tuple[tuple[float, ...], ...] | None = None
    mistakes: Mapping[str, Any] | None = None
    overlapping: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        stated = {"severity": self.severity, "mistakes": self.mistakes, "overlapping": self.overlapping}
        given = [name for name, value in stated.items() if value is not None]
        if len(given) > 1:
            raise ValueError(f"expected one of severity, mistakes and overlapping; got {' and '.join(given)}")
        if not self.levels and not given:
            raise ValueError("expected levels, with the groups of each, or a severity; got neither")

    def __call__(self, data: Dataset, source: Source, root: Path | None = None) -> Hierarchy:
        """The same for classes that have these names."""
        try:
            costs: Any = self.severity
            if self.mistakes is not None:
                costs = costs_of_mistakes(data.classes, self.mistakes)
            if self.overlapping is not None:
                costs = costs_of_overlapping(data.classes, self.overlapping)
            return hierarchy_of(data.classes, self.levels, costs)
        except ValueError as error:
            raise DataError(f"{data.name}: {error}") from None


@dataclass(frozen=True, kw_only=True)
class Coarse:
    """The groups that the data themselves have: the coarse labels of CIFAR-100, or `y_*_coarse` of an archive.

    Args:
        name: of the only level.
    """

    name: str = "group"

    def __call__(self, data: Dataset, source: Source, root: Path | None = None) -> Hierarchy:
        """Read the coarse labels, and the group of each class off its examples."""
        coarsely: Any = source
        if not hasattr(source, "coarse"):
            raise DataError(f"{data.name}: hierarchy: expected data with coarse labels, such as cifar100; got none")
        coarse: Dataset = replace(coarsely, coarse=True)(root)
        groups: dict[str, list[str]] = {name: [] for name in coarse.classes}
        splits = [(data.test, coarse.test), *([(data.train, coarse.train)] if data.train and coarse.train else [])]
        pairs = {pair for fine, above in splits for pair in zip(fine.y.tolist(), above.y.tolist(), strict=True)}
        for leaf, group in sorted(pairs):
            groups[coarse.classes[group]].append(data.classes[leaf])
        try:
            return hierarchy_of(data.classes, {self.name: groups})
        except ValueError as error:
            raise DataError(f"{data.name}: {error}") from None


@dataclass(frozen=True)
class _Stated:
    levels: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    severity: list[list[float]] | None = None
    mistakes: dict[Any, dict[Any, float]] | None = None
    overlapping: dict[str, list[Any]] | None = None


@dataclass(frozen=True, kw_only=True)
class File:
    """A hierarchy in a YAML file with the fields of `table`: levels, and severity, mistakes or overlapping.

    Args:
        path: the file, in the current directory or in the data root.
    """

    path: str

    def __call__(self, data: Dataset, source: Source, root: Path | None = None) -> Hierarchy:
        """Read the file."""
        path = existing(self.path, root)
        return read_table(path)(data, source, root)


def group_sizes(grouping: Grouping | None, source: Source) -> dict[str, dict[str, int]]:
    """The levels that a recipe states, from fine to coarse: the number of classes of each group, without the data.

    Raises:
        DataError: if only the data know them, or there are none.
    """
    if isinstance(grouping, Coarse) and isinstance(source, Cifar100):
        return {grouping.name: dict.fromkeys(COARSE, len(FINE) // len(COARSE))}
    table = read_table(existing(grouping.path, None)) if isinstance(grouping, File) else grouping
    levels = table.levels if isinstance(table, Table) else {}
    if not levels:
        raise DataError(
            "expected groups that can be known without the data: data.hierarchy by name, or a table or file with levels"
        )
    for level, groups in levels.items():
        if not isinstance(groups, Mapping) or not all(isinstance(some, list | tuple) for some in groups.values()):
            raise DataError(f"hierarchy.{level}: expected groups by name, each with a list of its classes")
    return {level: {str(group): len(some) for group, some in groups.items()} for level, groups in levels.items()}


def read_table(path: Path) -> Table:
    """The hierarchy that a file states.

    Raises:
        DataError: if it is no YAML, or states something else.
    """
    try:
        stated = parse_record(_Stated, load_yaml(read_regular(path, error=DataError, follow=True)))
        severity = None if stated.severity is None else tuple(map(tuple, stated.severity))
        return Table(levels=stated.levels, severity=severity, mistakes=stated.mistakes, overlapping=stated.overlapping)
    except (ValueError, yaml.YAMLError) as error:
        line = " ".join(str(error).split())
        raise DataError(f"{path}: expected a hierarchy: {line}") from None


CIFAR10_GROUPS = Table(
    levels={
        "group": {
            "animals": ["bird", "cat", "deer", "dog", "frog", "horse"],
            "vehicles": ["airplane", "automobile", "ship", "truck"],
        }
    }
)
"""Table 5.1 of the thesis of Ma."""

CIFAR5X5_GROUPS = Table(
    levels={
        "group": {
            "fish": ["aquarium_fish", "flatfish", "ray", "shark", "trout"],
            "vehicles": ["bicycle", "bus", "motorcycle", "pickup_truck", "train"],
            "people": ["baby", "boy", "girl", "man", "woman"],
            "trees": ["maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"],
            "insects": ["bee", "beetle", "butterfly", "caterpillar", "cockroach"],
        }
    }
)
"""The same for five of the twenty groups of CIFAR-100."""

FASHION_GROUPS = Table(
    levels={
        "group": {
            "tops": ["T-shirt/top", "Pullover", "Dress", "Coat", "Shirt"],
            "trousers": ["Trouser"],
            "shoes": ["Sandal", "Sneaker", "Ankle boot"],
            "bags": ["Bag"],
        },
        "area": {
            "clothes": ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Shirt"],
            "accessories": ["Sandal", "Sneaker", "Ankle boot", "Bag"],
        },
    }
)
"""Fashion-MNIST by what is worn where, at two levels."""

DIGIT_GROUPS = Table(
    levels={"group": {"with a loop": [*"0689"], "without": [*"123457"]}},
    severity=tuple(tuple(abs(float(label - other)) for other in range(10)) for label in range(10)),
)
"""Digits by shape; a misread digit costs the difference, as in an amount of money."""
