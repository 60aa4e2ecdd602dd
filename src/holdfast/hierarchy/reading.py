"""Hierarchies from plain values, as files, recipes and runs have them; what is wrong with one is said in one line."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.errors import unknown
from holdfast.hierarchy.levels import Hierarchy, Level
from holdfast.records import parse_record


@dataclass(frozen=True)
class _Facts:
    levels: dict[str, dict[str, list[str]]]
    severity: list[list[float]] | None = None


def hierarchy_of_facts(facts: Any, classes: Sequence[str]) -> Hierarchy:
    """The hierarchy that a run or a weights file has.

    Raises:
        ValueError: if it is none.
    """
    stated = parse_record(_Facts, facts)
    return hierarchy_of(classes, stated.levels, stated.severity)


def hierarchy_of(
    classes: Sequence[str], levels: Mapping[str, Any], severity: Sequence[Sequence[float]] | None = None
) -> Hierarchy:
    """A hierarchy from plain values.

    Args:
        classes: name of each class.
        levels: from fine to coarse: groups by name, each with the names of its classes.
        severity: what each mistake costs.

    Raises:
        ValueError: in one line, for unknown, missing and doubled classes, empty groups, levels that do not contain each
            other, and costs that are none.
    """
    places = {name: number for number, name in enumerate(classes)}
    if len(places) < len(classes):
        doubled = next(name for number, name in enumerate(classes) if places[name] != number)
        raise ValueError(f"hierarchy: expected classes of different names; got '{doubled}' twice")
    read = tuple(_level(name, groups, places) for name, groups in levels.items())
    for fine, coarse in itertools.pairwise(read):
        _require_nested(fine, coarse)
    if not read and severity is None:
        raise ValueError("hierarchy: expected a level of groups, or a severity; got neither")
    costs = None if severity is None else _costs(severity, tuple(classes))
    return Hierarchy(tuple(classes), read, costs)


def _level(name: Any, groups: Any, places: Mapping[str, int]) -> Level:
    where = f"hierarchy.{name}"
    if not isinstance(name, str) or not name or "/" in name:
        raise ValueError(f"hierarchy: expected levels whose names are texts without a slash; got {name!r}")
    if not isinstance(groups, Mapping) or not groups or not all(isinstance(group, str) for group in groups):
        raise ValueError(f"{where}: expected groups by name, each with a list of its classes; got {_short(groups)}")
    if len(groups) < 2:
        raise ValueError(f"{where}: expected two groups or more; got one")
    own: dict[int, str] = {}
    for group, leaves in groups.items():
        for leaf in _leaves(f"{where}.{group}", leaves, places):
            if leaf in own:
                twice = f"'{own[leaf]}' and in '{group}'" if own[leaf] != group else f"'{group}' twice"
                raise ValueError(f"{where}: expected every class in one group; got '{[*places][leaf]}' in {twice}")
            own[leaf] = group
    if missing := [leaf for leaf, number in places.items() if number not in own]:
        raise ValueError(f"{where}: expected every class in a group; got no group of {_named(missing)}")
    names = list(groups)
    return Level(name, tuple(names), tuple(names.index(own[leaf]) for leaf in range(len(places))))


def _leaves(where: str, leaves: Any, places: Mapping[str, int]) -> list[int]:
    """The classes of a group, by their numbers."""
    if not isinstance(leaves, list | tuple) or not leaves:
        got = "none" if isinstance(leaves, list | tuple) else _short(leaves)
        raise ValueError(f"{where}: expected a list of classes; got {got}")
    names = [str(leaf) for leaf in leaves]  # classes may be called 0, 1, 2, ...
    for name in names:
        if name not in places:
            raise ValueError(f"{where}: {unknown(name, places)}")
    return [places[name] for name in names]


def _require_nested(fine: Level, coarse: Level) -> None:
    for number, group in enumerate(fine.groups):
        above = sorted({coarse.of[leaf] for leaf in fine.members(number)})
        if len(above) > 1:
            names = [coarse.groups[one] for one in above[:2]]
            raise ValueError(
                f"hierarchy: expected every group of '{fine.name}' within one of '{coarse.name}'; got '{group}' in "
                f"'{names[0]}' and '{names[1]}'; levels go from fine to coarse"
            )


def _costs(severity: Any, classes: tuple[str, ...]) -> tuple[tuple[float, ...], ...]:
    rows = [tuple(map(float, row)) for row in severity]
    if len(rows) != len(classes) or any(len(row) != len(classes) for row in rows):
        got = f"{len(rows)} rows of {'/'.join(sorted({str(len(row)) for row in rows})[:3])}"
        raise ValueError(
            f"hierarchy.severity: expected a row and a column for each of {len(classes)} classes; got {got}"
        )
    for label, row in zip(classes, rows, strict=True):
        for other, cost in zip(classes, row, strict=True):
            if not 0 <= cost < math.inf or (label == other and cost):
                wanted = "0, since it is right" if label == other else "a number from 0 on"
                raise ValueError(f"hierarchy.severity: '{label}' taken for '{other}': expected {wanted}; got {cost:g}")
    if not any(map(any, rows)):
        raise ValueError("hierarchy.severity: expected a mistake that costs something; got none")
    return tuple(rows)


def costs_of_overlapping(classes: Sequence[str], groups: Mapping[str, Any]) -> list[list[float]]:
    """Costs of groups that may overlap: 1 for a prediction that shares no group with the class, else 0.

    Raises:
        ValueError: for unknown classes, classes without a group and empty groups.
    """
    places = {name: number for number, name in enumerate(classes)}
    shared = np.zeros((len(classes),) * 2, dtype=bool)
    for group, leaves in groups.items():
        members = _leaves(f"hierarchy.overlapping.{group}", leaves, places)
        shared[np.ix_(members, members)] = True
    if missing := [name for name, number in places.items() if not shared[number, number]]:
        raise ValueError(f"hierarchy.overlapping: expected every class in a group; got no group of {_named(missing)}")
    return [[float(cost) for cost in row] for row in ~shared]


def costs_of_mistakes(classes: Sequence[str], stated: Mapping[str, Any]) -> list[list[float]]:
    """Costs of mistakes of which only some are stated, by class and prediction; the others cost 1.

    Raises:
        ValueError: for unknown classes and costs that are no numbers.
    """
    places = {name: number for number, name in enumerate(classes)}
    costs = np.ones((len(classes),) * 2) - np.eye(len(classes))
    for label, row in stated.items():
        where = f"hierarchy.mistakes.{label}"
        (leaf,) = _leaves(where, [label], places)
        if not isinstance(row, Mapping):
            raise ValueError(f"{where}: expected costs by class; got {_short(row)}")
        for other, cost in row.items():
            if isinstance(cost, bool) or not isinstance(cost, int | float):
                raise ValueError(f"{where}.{other}: expected a number; got {_short(cost)}")
            costs[leaf, _leaves(where, [other], places)[0]] = cost
    return [[float(cost) for cost in row] for row in costs]


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
