"""Items as HTML: sentences, tables and charts, through templates that escape everything."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from holdfast.show.chart import Chart
from holdfast.show.figures import Figure, figure
from holdfast.show.items import Card, Choice, Code, Details, Heading, Item, Note
from holdfast.show.pictures import Panel, Photos
from holdfast.show.table import Table
from holdfast.show.text import visible

KINDS = {
    str: "text", Chart: "chart", Heading: "heading", Note: "note", Card: "card", Code: "code", Table: "table",
    Figure: "chart", Panel: "chart", Photos: "photos", Details: "details", Choice: "choice",
}  # fmt: skip
"""What the template calls each kind of item."""

NUMBERS = ("table", "details")
"""Kinds of parts that hold the numbers of charts."""


@dataclass(frozen=True)
class Part:
    """Neighbouring items of one kind, ready for the template.

    Args:
        kind: which they are.
        items: sentences, headings, tables, figures and so on.
        identifier: of the element that holds them.
        numbers: identifier of the element that holds the numbers of the figures; empty where there is none.
    """

    kind: str
    items: Sequence[Any]
    identifier: str
    numbers: str = ""


@dataclass(frozen=True)
class Held:
    """Details or a choice, ready for the template.

    Args:
        of: the details or the choice.
        parts: the items of the details, or those of each option.
    """

    of: Details | Choice
    parts: Sequence[Sequence[Part]]


def parts_of(items: Iterable[Item], labels: Sequence[str], name: str, numbers: str = "") -> list[Part]:
    """Items in groups, with charts drawn; the charts on the page are called `name-0`, `name-1` and so on.

    Args:
        items: what is shown, in order.
        labels: labels of the runs that curves belong to.
        name: identifier of the section.
        numbers: identifier of what holds the numbers of charts where no table stands beside them.
    """
    return _parts(items, labels, name, numbers, itertools.count())


def figures_of(parts: Iterable[Part]) -> list[Figure]:
    """The figures among the items, which the page's script draws."""
    figures: list[Figure] = []
    for item in (item for part in parts for item in part.items):
        if isinstance(item, Figure):
            figures.append(item)
        elif isinstance(item, Held):
            figures += figures_of(itertools.chain.from_iterable(item.parts))
    return figures


def environment() -> Environment:
    """How templates become HTML: everything is escaped, control characters are written out, nothing may be missing."""
    return Environment(
        loader=PackageLoader("holdfast.show"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _parts(items: Iterable[Item], labels: Sequence[str], name: str, numbers: str, count: Iterator[int]) -> list[Part]:
    def drawn(item: Item, place: int) -> Any:
        if isinstance(item, Chart):
            return figure(item, labels, f"{name}-{next(count)}")
        if isinstance(item, Figure):
            return replace(item, identifier=f"{name}-{next(count)}")
        if isinstance(item, Details | Choice):
            each = [item.items] if isinstance(item, Details) else [some for _, some in item.options]
            inside = f"{name}-inside-{place}"
            return Held(item, [_parts(some, labels, f"{inside}-{n}", numbers, count) for n, some in enumerate(each)])
        return item

    pairs = [(KINDS[type(item)], drawn(item, place)) for place, item in enumerate(items)]
    groups = enumerate(itertools.groupby(pairs, key=lambda pair: pair[0]))
    parts = [Part(kind, [item for _, item in some], f"{name}-{kind}-{place}") for place, (kind, some) in groups]
    return [replace(part, numbers=_numbers(parts, place) or numbers) for place, part in enumerate(parts)]


def _numbers(parts: Sequence[Part], place: int) -> str:
    """Where the numbers of a chart are: in what follows it below the same heading or, failing that, before it."""
    following = itertools.takewhile(lambda part: part.kind != "heading", parts[place:])
    candidates = [part for part in (*following, *reversed(parts[:place])) if part.kind in NUMBERS]
    return candidates[0].identifier if candidates else ""


def _shown(value: Any) -> Any:
    """Text that cannot turn the direction of what follows, or hide itself; what is HTML already stays."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
