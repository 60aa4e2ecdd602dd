"""What can be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Union

from holdfast.show.chart import Chart
from holdfast.show.figures import Figure
from holdfast.show.pictures import Panel, Photos
from holdfast.show.table import Table


@dataclass(frozen=True)
class Heading:
    """The heading of the items that follow, below that of the section.

    Args:
        text: the heading.
    """

    text: str


@dataclass(frozen=True)
class Note:
    """A sentence that is no result.

    Args:
        text: the sentence.
        tone: a guide helps to read what follows and is for pages alone; the others say why there is nothing, why
            numbers are in doubt, and what is an error.
        lead: a word or two before it that catch the eye.
    """

    text: str
    tone: Literal["guide", "missing", "doubt", "error"] = "guide"
    lead: str = ""

    def __str__(self) -> str:
        return f"{self.lead} {self.text}".strip()


@dataclass(frozen=True)
class Card:
    """A run in a few lines; neighbouring ones stand side by side.

    Args:
        title: the run.
        figures: name, number and interval of the large numbers.
        lead: the one sentence to remember.
        details: more sentences, for pages.
    """

    title: str
    figures: Sequence[tuple[str, str, str]]
    lead: str
    details: Sequence[str] = ()


@dataclass(frozen=True)
class Code:
    """Text that is shown as it is written, for copying.

    Args:
        text: the text.
    """

    text: str


@dataclass(frozen=True)
class Details:
    """Items that are folded away on a page; a terminal only names them, unless they are open.

    Args:
        summary: what they are.
        items: the items.
        open: whether a page shows them unfolded, and a terminal shows them at all.
    """

    summary: str
    items: Sequence[Item]
    open: bool = False


@dataclass(frozen=True)
class Choice:
    """Items of which a page shows those that the reader picks; a terminal only names the choice.

    Args:
        options: name and items of each.
    """

    options: Sequence[tuple[str, Sequence[Item]]]


Item = Union[str, Heading, Note, Card, Code, Table, Chart, Figure, Panel, Photos, "Details", "Choice"]
"""A sentence, a table, a chart of lines, any other chart as plotly has it, pictures, and what orders them."""
