"""Hierarchies of classes as plain values; nothing here needs torch."""

from holdfast.hierarchy.binding import border_of, check_border, needs_hierarchy, with_hierarchy
from holdfast.hierarchy.levels import Border, Hierarchy, Level
from holdfast.hierarchy.reading import (
    costs_of_mistakes,
    costs_of_overlapping,
    hierarchy_of,
    hierarchy_of_facts,
)

__all__ = [
    "Border",
    "Hierarchy",
    "Level",
    "border_of",
    "check_border",
    "costs_of_mistakes",
    "costs_of_overlapping",
    "hierarchy_of",
    "hierarchy_of_facts",
    "needs_hierarchy",
    "with_hierarchy",
]
