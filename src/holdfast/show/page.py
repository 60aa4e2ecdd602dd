"""Self-contained HTML: a page of sections, and items in a notebook."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any

from markupsafe import Markup

from holdfast.show.html import Part, environment, figures_of, parts_of
from holdfast.show.items import Item

INLINE = ("text", "heading", "note", "table")
"""Kinds of items that need neither a style sheet nor a script."""


@dataclass(frozen=True)
class Section:
    """Items under a heading, drawn.

    Args:
        name: identifier on the page.
        title: heading; a section without one stands outside the table of contents.
        parts: what it shows, in order.
        link: its name in the table of contents, where that is shorter than the heading.
    """

    name: str
    title: str
    parts: Sequence[Part]
    link: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        items: Iterable[Item],
        labels: Sequence[str] = (),
        *,
        link: str = "",
        numbers: str = "",
    ) -> Section:
        """Draw items.

        Args:
            name: identifier on the page.
            title: heading.
            items: what it shows, in order.
            labels: labels of the runs that curves belong to.
            link: its name in the table of contents, where that is shorter than the heading.
            numbers: identifier of the section that holds the numbers of its charts, where it is another one.
        """
        return cls(name, title, parts_of(items, labels or ("",), name, numbers), link)


def render_page(title: str, sections: Iterable[Section], *, kicker: str = "") -> str:
    """A page that needs no network and runs no script but its own.

    Args:
        title: the main heading.
        sections: what the page shows, in order; those without parts are left out.
        kicker: what kind of page it is; without it there is no table of contents either.
    """
    shown = [section for section in sections if section.parts]
    specs = {one.identifier: one.spec for section in shown for one in figures_of(section.parts)}
    scripts = [*([plotly_script()] if specs else []), _file("page.js")]
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            kicker=kicker,
            sections=shown,
            specs=specs,
            style=Markup(_file("page.css")),
            scripts=[Markup(script) for script in scripts],
            hashes=[_digest(script) for script in scripts],
        )
    )


def to_html(items: Iterable[Item], labels: Sequence[str] = ()) -> str:
    """Items for a notebook: tables and sentences as they are, all else in a frame with a page of its own."""
    section = Section.of("item", "", items, labels)
    if all(part.kind in INLINE for part in section.parts):
        template: Any = environment().get_template("items.html.j2").module
        return str(template.draw(section.parts))
    resize = "this.style.height = this.contentDocument.documentElement.scrollHeight + 'px'"
    return (
        f'<iframe srcdoc="{escape(render_page("", [section]))}" onload="{resize}" title="holdfast" '
        'style="width: 100%; height: 30rem; border: 0"></iframe>'
    )


def plotly_script() -> str:
    """The library that draws the charts."""
    from plotly.offline import get_plotlyjs

    # In a string of JavaScript the backslash changes nothing; in HTML it keeps the script from ending early.
    script: str = get_plotlyjs()
    return script.replace("\r\n", "\n").replace("</script", "<\\/script")


def _file(name: str) -> str:
    return resources.files("holdfast.show").joinpath("templates", name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    """The digest by which the page's own policy knows its scripts: no other script may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
