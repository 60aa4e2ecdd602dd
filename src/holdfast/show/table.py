"""Tables: cells first, drawn later for the medium."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True)
class Cell:
    """One cell.

    Args:
        text: what it says.
        note: a second, smaller line.
        heat: 0 to 1, the strength of its colour; None for none.
        good: whether the colour means something good.
        span: share with its interval (value, low, high) to draw below the text.
        words: left-aligned text instead of a right-aligned number.
        value: the number itself, for machines; None where there is none.
    """

    text: str
    note: str = ""
    heat: float | None = None
    good: bool = False
    span: tuple[float, float, float] | None = None
    words: bool = False
    value: float | None = None


@dataclass(frozen=True)
class Table:
    """A table with a heading for each row and column.

    Args:
        caption: what it shows, in one sentence.
        corner: heading of the row headings.
        columns: headings.
        rows: heading and cells of each row.
        groups: headings above neighbouring columns, with how many each spans; they cover all columns or are empty.
        totals: how many of the last rows sum up the others.
        style: how a page sets it: columns stand close together, rows scroll, or words need room.
    """

    caption: str
    corner: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    groups: Sequence[tuple[str, int]] = ()
    totals: int = 0
    style: Literal["", "dense", "tall", "headline", "wordy", "facts"] = ""

    def headings(self) -> list[list[str]]:
        """Of each column, the heading above it and its neighbours, and its own."""
        above = [name for name, width in self.groups for _ in range(width)] or [""] * len(self.columns)
        return [[*filter(None, parts)] for parts in zip(above, self.columns, strict=True)]

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        from holdfast.show.page import to_html

        return to_html([self])


def coloured(rows: Sequence[tuple[str, Sequence[Cell]]], *, good: bool = True) -> list[tuple[str, Sequence[Cell]]]:
    """Rows of a heat map: cells with a number are coloured from the lowest to the highest of all.

    Args:
        rows: of a table.
        good: whether high numbers are good.
    """
    values = [cell.value for _, cells in rows for cell in cells if cell.value is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)

    def warmed(cell: Cell) -> Cell:
        if cell.value is None:
            return cell
        return replace(cell, heat=(cell.value - low) / (high - low) if high > low else 0.0, good=good)

    return [(name, [warmed(cell) for cell in cells]) for name, cells in rows]


def across(
    caption: str, corner: str, columns: Sequence[tuple[str, Mapping[Any, Cell]]], write: Callable[[Any], str]
) -> Table:
    """A column of cells by position for each name; a row for each position that one of them has, from the lowest."""
    positions = sorted({position for _, cells in columns for position in cells})
    rows = [(write(position), [cells.get(position, Cell("")) for _, cells in columns]) for position in positions]
    return Table(caption, corner, [name for name, _ in columns], rows)
