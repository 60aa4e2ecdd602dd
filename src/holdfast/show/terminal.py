"""Items as text: sentences and tables; the numbers of a chart are in the tables beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.show.items import Details, Heading, Item
from holdfast.show.table import Cell, Table
from holdfast.show.text import one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

PLAIN = str.maketrans({"\u00a0": " ", "\u202f": " "})
"""Spaces of typesetters, which people cannot search for on a terminal."""


def draw(items: Iterable[Item], console: Console) -> None:
    """Print sentences and tables in their order."""
    from rich.text import Text

    for item in items:
        if isinstance(item, Table):
            console.print(rich_table(item))
        elif isinstance(item, str | Heading):
            text = item if isinstance(item, str) else item.text
            console.print(Text(_line(text), style="" if isinstance(item, str) else "bold"))
        elif isinstance(item, Details) and item.printed:
            draw(item.items, console)
        elif isinstance(item, Details):
            console.print(Text(f"{_line(item.summary)}: see the report or --json.", style="dim"))


def rich_table(table: Table) -> RichTable:
    """A quiet table: the caption above, words on the left and numbers on the right."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=box.SIMPLE_HEAD, title=_line(table.caption), title_justify="left", pad_edge=False)
    shown.add_column(Text(_line(table.corner)), overflow="fold")
    words = [cell.words for cell in table.rows[0][1]] if table.rows else []
    for number, column in enumerate(table.columns):
        left = words[number : number + 1] == [True]
        shown.add_column(Text(_line(column)), justify="left" if left else "right", overflow="fold")
    for name, cells in table.rows:
        shown.add_row(Text(_line(name)), *[Text(_line(_text(cell))) for cell in cells])
    return shown


def _text(cell: Cell) -> str:
    return " ".join(filter(None, (cell.text, cell.note)))


def _line(text: str) -> str:
    return one_line(text.translate(PLAIN))
