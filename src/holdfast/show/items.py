"""What can be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

from holdfast.show.chart import Chart
from holdfast.show.figures import Figure
from holdfast.show.pictures import Panel
from holdfast.show.table import Table


@dataclass(frozen=True)
class Heading:
    """The heading of the items that follow, below that of the section.

    Args:
        text: the heading.
    """

    text: str


@dataclass(frozen=True)
class Details:
    """Items that are folded away on a page; a terminal only names them, unless they are to be printed.

    Args:
        summary: what they are.
        items: the items.
        printed: whether a terminal shows them.
    """

    summary: str
    items: Sequence[Item]
    printed: bool = False


Item = Union[str, Heading, Table, Chart, Figure, Panel, "Details"]
"""A sentence, a heading, a table, a chart of lines, any other chart as plotly has it, pictures, or details."""
