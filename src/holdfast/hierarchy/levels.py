r"""Hierarchies of classes: groups at several levels, what mistakes cost, and borders between classes.

A border is a boolean matrix :math:`B`, (K, K): :math:`B_{yk}` says whether the prediction :math:`k` is a mistake that
matters where the class is :math:`y`. A level of a hierarchy has the border of its blocks: every prediction outside the
group of the class crosses it. What mistakes cost has a border for each threshold: a mistake crosses it that costs at
least so much. Groups that overlap need no more: a prediction crosses their border if it shares no group with the class.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import RecipeError, unknown

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Level:
    """Groups of classes, of which every class is in exactly one.

    Args:
        name: of the level.
        groups: name of each group.
        of: the group of each class, by its number.
    """

    name: str
    groups: tuple[str, ...]
    of: tuple[int, ...]

    def members(self, group: int) -> tuple[int, ...]:
        """The classes of a group, by their numbers."""
        return tuple(leaf for leaf, own in enumerate(self.of) if own == group)


@dataclass(frozen=True, eq=False)
class Border:
    """Which predictions are mistakes that matter.

    Args:
        name: of the level, or the threshold of what mistakes cost.
        crossing: for each class (row) the predictions that cross, (K, K).
        level: the level whose blocks it surrounds; None for a border that is not made of blocks.
    """

    name: str
    crossing: Flags
    level: Level | None = None

    def inside(self, label: int) -> int:
        """How many wrong classes do not cross it, for examples of a class."""
        return int((~self.crossing[label]).sum()) - 1

    def chance(self, labels: Sequence[int] | None = None) -> float:
        """The probability that a wrong class does not cross it, if all wrong classes are equally likely.

        Args:
            labels: of the examples; None for as many of every class.
        """
        classes = len(self.crossing)
        counted = range(classes) if labels is None else labels
        return float(np.mean([self.inside(label) for label in counted])) / (classes - 1)


@dataclass(frozen=True)
class Hierarchy:
    """Groups of classes at several levels, and what mistakes cost.

    Args:
        classes: name of each class, the leaves.
        levels: from fine to coarse; a group lies within one group of every coarser level.
        severity: what it costs to take an example of a class (row) for another (column); None for how many levels up
            the two classes have a group in common: 1 for two classes of a group, 2 for two groups of the next, ...
    """

    classes: tuple[str, ...]
    levels: tuple[Level, ...]
    severity: tuple[tuple[float, ...], ...] | None = None

    @cached_property
    def costs(self) -> NDArray[np.float64]:
        """What each mistake costs, (K, K); 0 for right answers."""
        if self.severity is not None:
            return np.array(self.severity, dtype=np.float64)
        apart = np.ones((len(self.classes),) * 2) - np.eye(len(self.classes))
        for level in self.levels:
            apart += self.border(level.name).crossing
        return apart

    def border(self, level: str | None = None, severity: float | None = None) -> Border:
        """The border of a level, the finest unless named, or of mistakes that cost at least so much.

        Raises:
            RecipeError: if there is no such level, or no mistake costs as much.
        """
        if severity is not None:
            return self._costly(level, severity)
        if not self.levels:
            raise RecipeError("hierarchy: expected a level of groups; it has only a severity: state from which on")
        names = [one.name for one in self.levels]
        if level is not None and level not in names:
            raise RecipeError(f"hierarchy: level: {unknown(level, names)}")
        chosen = self.levels[0 if level is None else names.index(level)]
        groups = np.array(chosen.of)
        return Border(chosen.name, groups[:, None] != groups, chosen)

    def _costly(self, level: str | None, severity: float) -> Border:
        if level is not None:
            raise RecipeError(f"hierarchy: expected a level or a severity; got '{level}' and {severity:g}")
        crossing = self.costs >= severity
        if not 0 < severity <= self.costs.max():
            raise RecipeError(f"hierarchy: expected a severity above 0, at most {self.costs.max():g}; got {severity:g}")
        return Border(f"severity {severity:g}", crossing)

    @property
    def digest(self) -> str:
        """A hash of all of it."""
        content = {"classes": self.classes, **self.facts()}
        return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()

    def facts(self) -> dict[str, Any]:
        """The same as plain values, which `hierarchy_of` reads beside the names of the classes."""
        levels = {
            one.name: {
                group: [self.classes[leaf] for leaf in one.members(number)] for number, group in enumerate(one.groups)
            }
            for one in self.levels
        }
        return {"levels": levels, "severity": None if self.severity is None else [list(row) for row in self.severity]}
