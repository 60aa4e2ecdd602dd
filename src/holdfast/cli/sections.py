"""Sections of the report on a terminal: the same tables and sentences as on the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from holdfast.cli.screen import stdout

if TYPE_CHECKING:
    from holdfast.report.page import Unit
    from holdfast.report.runs import RunData
    from holdfast.show.items import Item

OVERVIEW = ("summary", "unfinished", "accuracy", "yields", "distances", "certificates", "corruptions", "maps")
"""Sections that sum up what was measured."""


def show_overview(runs: Sequence[RunData], *more: str) -> None:
    """Print the sections that sum up what was measured, and some others by name."""
    from holdfast.report.page import UNITS

    show([UNITS[name]() for name in (*OVERVIEW, *more)], runs)


def show(units: Iterable[Unit], runs: Sequence[RunData]) -> None:
    """Print what units present but for what they fold; those that only say why there is nothing stay silent."""
    from holdfast.show.terminal import draw

    for unit in units:
        items = list(unit.present(runs))
        if any(map(_counts, items)):
            draw(items, stdout(), folded=False)


def _counts(item: Item) -> bool:
    from holdfast.show.items import Note

    return not isinstance(item, Note) or item.tone in ("doubt", "error")
