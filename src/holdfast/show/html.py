"""Items as HTML: sentences, tables and charts, through templates that escape everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from holdfast.show.chart import Chart
from holdfast.show.figures import Figure, figure
from holdfast.show.items import Details, Heading, Item
from holdfast.show.pictures import Panel
from holdfast.show.table import Table
from holdfast.show.text import visible


@dataclass(frozen=True)
class Part:
    """Neighbouring items of one kind, ready for the template.

    Args:
        kind: which they are.
        items: sentences, headings, tables, figures and panels, or folded parts.
        numbers: identifier of the element that holds the numbers of the figures.
    """

    kind: Literal["text", "heading", "table", "chart", "details"]
    items: Sequence[str | Heading | Table | Figure | Panel | Folded]
    numbers: str = ""


@dataclass(frozen=True)
class Folded:
    """Details, ready for the template.

    Args:
        summary: what they are.
        parts: their items.
    """

    summary: str
    parts: Sequence[Part]


def parts_of(items: Iterable[Item], labels: Sequence[str], name: str) -> list[Part]:
    """Items in groups, with charts drawn; elements on the page are called `name-0`, `name-1` and so on.

    Args:
        items: what is shown, in order.
        labels: labels of the runs that curves belong to.
        name: identifier of the section.
    """
    drawn = [_drawn(item, labels, f"{name}-{number}") for number, item in enumerate(items)]
    return [Part(kind, list(some), f"{name}-numbers") for kind, some in groupby(drawn, _kind)]


def figures_of(parts: Iterable[Part]) -> list[Figure]:
    """The figures among the items, which the page's script draws."""
    figures: list[Figure] = []
    for item in (item for part in parts for item in part.items):
        if isinstance(item, Figure):
            figures.append(item)
        elif isinstance(item, Folded):
            figures += figures_of(item.parts)
    return figures


def environment(*packages: str) -> Environment:
    """How templates become HTML: everything is escaped, control characters are written out, nothing may be missing.

    Args:
        packages: whose templates are looked up, beside the macros of this one.
    """
    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "holdfast.show")]),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def to_html(items: Iterable[Item], name: str = "item") -> Markup:
    """Sentences and tables for a notebook; charts need a page."""
    template = environment().get_template("items.html.j2")
    return Markup(template.render(parts=parts_of([item for item in items if isinstance(item, str | Table)], [], name)))


def _shown(value: Any) -> Any:
    """Text that cannot turn the direction of what follows, or hide itself; what is HTML already stays."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _drawn(item: Item, labels: Sequence[str], identifier: str) -> str | Heading | Table | Figure | Panel | Folded:
    if isinstance(item, Chart):
        return figure(item, labels, identifier)
    if isinstance(item, Details):
        return Folded(item.summary, parts_of(item.items, labels, identifier))
    return replace(item, identifier=identifier) if isinstance(item, Figure) else item


def _kind(item: object) -> Literal["text", "heading", "table", "chart", "details"]:
    if isinstance(item, str):
        return "text"
    if isinstance(item, Heading):
        return "heading"
    if isinstance(item, Folded):
        return "details"
    return "table" if isinstance(item, Table) else "chart"
