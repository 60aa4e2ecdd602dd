"""Sections of the report on a terminal: the same tables and sentences as on the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from holdfast.cli.output import echo_json
from holdfast.cli.screen import stdout
from holdfast.errors import RecipeError, unknown

if TYPE_CHECKING:
    from holdfast.report.page import Unit
    from holdfast.report.runs import RunData
    from holdfast.show.items import Item

OVERVIEW = (
    "summary", "unfinished", "accuracy", "groups", "distances", "certificates", "corruptions", "band-noise", "maps",
)  # fmt: skip
"""Sections that sum up what was measured; none has times, so that a repeated command prints the same."""


def show_overview(runs: Sequence[RunData], *more: str) -> None:
    """Print the sections that sum up what was measured, and some others by name."""
    from holdfast.report.page import units_of

    units = units_of(runs)
    for name in (*OVERVIEW, *more):
        show(units[name].present(runs))


def show_sections(names: str, runs: Sequence[RunData], *, as_json: bool) -> None:
    """Print whole sections of the page.

    Args:
        names: with commas between them; all for every one.
        runs: what they are about.
        as_json: as plain values for machines.
    """
    from holdfast.report.page import units_of
    from holdfast.show.plain import to_plain
    from holdfast.show.terminal import draw

    units = units_of(runs)
    chosen = list(units) if names.strip() == "all" else [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in units:
            raise RecipeError(f"--show: {unknown(name, units)}")
    if as_json:
        echo_json({name: to_plain(units[name].present(runs)) for name in chosen})
        return
    for name in chosen:
        draw(_or_where(name, list(units[name].present(runs))), stdout())


def print_section(name: str, unit: Unit, runs: Sequence[RunData], *, as_json: bool) -> None:
    """Print one section, with fields of its own."""
    from holdfast.show.plain import to_plain
    from holdfast.show.terminal import draw

    items = list(unit.present(runs))
    if as_json:
        echo_json({name: to_plain(items)})
    else:
        draw(_or_where(name, items) or [f"{name}: nothing to show for these runs."], stdout())


def _or_where(name: str, items: Sequence[Item]) -> Sequence[Item]:
    """The items of a section; where a terminal shows none of them, where they and their numbers are."""
    from holdfast.report.page import NUMBERS
    from holdfast.show.terminal import has_text

    if not items or any(map(has_text, items)):
        return items
    numbers = f"; numbers: --show {NUMBERS[name]}" if name in NUMBERS else ""
    return [f"{name}: charts and pictures only, see the report{numbers}."]


def show(items: Iterable[Item]) -> None:
    """Print items but for what they fold; those that only say why there is nothing stay silent."""
    from holdfast.show.terminal import draw

    items = list(items)
    if any(map(_counts, items)):
        draw(items, stdout(), folded=False)


def _counts(item: Item) -> bool:
    from holdfast.show.items import Note

    return not isinstance(item, Note) or item.tone in ("doubt", "error")
