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
WIDE = 1000
"""Letters of a line that is as long as it needs to be."""


def draw(items: Iterable[Item], console: Console, *, folded: bool = True) -> None:
    """Print sentences and tables in their order.

    Args:
        items: what is shown.
        console: where to.
        folded: whether to name what stays folded.
    """
    from rich.text import Text

    pending: list[Heading] = []  # a heading waits for what it is about
    for item in items:
        if not (isinstance(item, Heading) or has_text(item)):
            continue
        shown = [Text(one_line(line), style=style) for line, style in _lines(item, folded=folded)]
        if isinstance(item, Heading):
            pending = [item]
        elif shown or isinstance(item, Table) or (isinstance(item, Details) and item.open):
            shown = [*(Text(one_line(heading.text), style="bold") for heading in pending), *shown]
            pending = []
        for line in shown:
            console.print(line, soft_wrap=not console.is_terminal)  # a line in a pipe stays one
        if isinstance(item, Table):
            console.print(rich_table(item))
        elif isinstance(item, Details) and item.open:
            draw(item.items, console, folded=folded)


def has_text(item: Item) -> bool:
    """Whether a terminal has anything to show of an item: not of a chart, a picture, a heading or a guide alone."""
    if isinstance(item, Details):
        return any(map(has_text, item.items))
    if isinstance(item, Choice):
        return any(has_text(each) for _, some in item.options for each in some)
    return isinstance(item, Table) or any(_lines(item, folded=True))


def _lines(item: Item, *, folded: bool) -> Iterator[tuple[str, str]]:
    """Each line of what is no table, with its style; charts, pictures and guides have none."""
    if isinstance(item, str):
        yield item, ""
    elif isinstance(item, Card):
        yield f"{item.title}: {item.lead}", ""
    elif isinstance(item, Note) and item.tone != "guide":
        yield str(item), "dim" if item.tone == "missing" else ""
    elif isinstance(item, Details) and folded and not item.open:
        yield f"{item.summary.removesuffix('.')}: in the report and in --json.", "dim"
    elif isinstance(item, Choice) and folded:
        yield f"{', '.join(name for name, _ in item.options)}: in the report and in --json.", "dim"


def to_text(items: Iterable[Item]) -> str:
    """Items as text of any width, for printing without a terminal."""
    import io

    from rich.console import Console

    file = io.StringIO()
    draw(items, Console(file=file, width=WIDE, highlight=False, emoji=False, markup=False), folded=False)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def rich_table(table: Table) -> RichTable:
    """A quiet table: the caption above, words on the left and numbers on the right."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=box.SIMPLE_HEAD, title=one_line(table.caption), title_justify="left", pad_edge=False)
    shown.add_column(Text(one_line(table.corner)), overflow="fold")
    words = [cell.words for cell in table.rows[0][1]] if table.rows else []
    for number, heading in enumerate(table.headings()):
        left = words[number : number + 1] == [True]
        shown.add_column(Text("\n".join(map(one_line, heading))), justify="left" if left else "right", overflow="fold")
    for name, cells in table.rows:
        shown.add_row(Text(one_line(name)), *[Text(one_line(_text(cell))) for cell in cells])
    return shown


def _text(cell: Cell) -> str:
    return " ".join(filter(None, (cell.text, cell.note)))
