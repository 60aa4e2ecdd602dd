"""Items as text: sentences and tables; the numbers of a chart are in the tables beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from holdfast.show.items import Card, Choice, Details, Heading, Item, Note
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
        elif isinstance(item, Details) and item.open:
            draw(item.items, console)
        else:
            for line, style in _lines(item):
                console.print(Text(_line(line), style=style))


def _lines(item: Item) -> Iterator[tuple[str, str]]:
    """Each line of what is no table, with its style; charts, pictures and guides have none."""
    if isinstance(item, str):
        yield item, ""
    elif isinstance(item, Heading):
        yield item.text, "bold"
    elif isinstance(item, Card):
        yield f"{item.title}: {item.lead}", ""
    elif isinstance(item, Note) and item.tone != "guide":
        yield str(item), "dim" if item.tone == "missing" else ""
    elif isinstance(item, Details):
        yield f"{item.summary}: see the report or --json.", "dim"
    elif isinstance(item, Choice):
        yield f"{', '.join(name for name, _ in item.options)}: see the report or --json.", "dim"


def rich_table(table: Table) -> RichTable:
    """A quiet table: the caption above, words on the left and numbers on the right."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=box.SIMPLE_HEAD, title=_line(table.caption), title_justify="left", pad_edge=False)
    shown.add_column(Text(_line(table.corner)), overflow="fold")
    words = [cell.words for cell in table.rows[0][1]] if table.rows else []
    groups = [name for name, width in table.groups for _ in range(width)] or [""] * len(table.columns)
    for number, column in enumerate(table.columns):
        left = words[number : number + 1] == [True]
        heading = "\n".join(_line(part) for part in (groups[number], column) if part)
        shown.add_column(Text(heading), justify="left" if left else "right", overflow="fold")
    for name, cells in table.rows:
        shown.add_row(Text(_line(name)), *[Text(_line(_text(cell))) for cell in cells])
    return shown


def _text(cell: Cell) -> str:
    return " ".join(filter(None, (cell.text, cell.note)))


def _line(text: str) -> str:
    return one_line(text.translate(PLAIN))
