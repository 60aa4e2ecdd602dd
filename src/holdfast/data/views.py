"""Views of labelled images: the groups of a hierarchy as classes, or the classes of one group alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from holdfast.data.dataset import Split
from holdfast.errors import DataError, unknown
from holdfast.hierarchy import Hierarchy


@dataclass(frozen=True)
class View:
    """Which labels images have: the group of their class, or their place among the classes of one group.

    Args:
        classes: names of the new classes.
        leaves: of each new class, the classes that it stands for, by their numbers.
    """

    classes: tuple[str, ...]
    leaves: tuple[tuple[int, ...], ...]

    def __call__(self, split: Split) -> Split:
        """The images that have a class in the view, with their new labels; indices stay."""
        return relabelled(split, self.leaves)


def view_of(name: str, hierarchy: Hierarchy | None, where: str = "data.view") -> View:
    """The view of a name: a level, whose groups become the classes, or a level and one of its groups.

    Args:
        name: such as `group`, or `group/animals` for the classes of the animals alone.
        hierarchy: of the data.
        where: what states it, for messages.

    Raises:
        DataError: if there is no such level or group.
    """
    if hierarchy is None:
        raise DataError(f"{where} '{name}': expected data with a hierarchy, such as hierarchy: cifar10; got none")
    level_name, slash, group = name.partition("/")
    levels = {level.name: level for level in hierarchy.levels}
    if level_name not in levels:
        raise DataError(f"{where}: level: {unknown(level_name, levels)}")
    level = levels[level_name]
    if not slash:
        return View(level.groups, tuple(level.members(number) for number in range(len(level.groups))))
    if group not in level.groups:
        raise DataError(f"{where}: group: {unknown(group, level.groups)}")
    leaves = level.members(level.groups.index(group))
    return View(tuple(hierarchy.classes[leaf] for leaf in leaves), tuple((leaf,) for leaf in leaves))


def relabelled(split: Split, leaves: Sequence[Sequence[int]]) -> Split:
    """The examples of some classes; the new label of each is the position of its class, or of the group of it.

    Args:
        split: the examples.
        leaves: for each new label, the old ones.
    """
    most = max(max(some) for some in leaves)
    new = torch.full((max(most, int(split.y.max()) if len(split) else 0) + 1,), -1)
    for label, some in enumerate(leaves):
        new[list(some)] = label
    chosen = split.select(new[split.y] >= 0)
    return replace(chosen, y=new[chosen.y])
