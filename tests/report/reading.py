"""Read a report back the way a browser would, without one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

VOID = {"meta", "img", "br", "link", "input"}


@dataclass
class Read(HTMLParser):
    """Tables by caption, elements with their attributes, and all text outside scripts and styles."""

    tables: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.rows: list[list[str]] = []
        self.caption = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)
        if tag == "table":
            self.rows, self.caption = [], ""
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        while self.stack and self.stack.pop() != tag:
            pass
        if tag == "table":
            self.tables[self.caption] = {row[0]: row[1:] for row in self.rows}

    def handle_data(self, data: str) -> None:
        if "script" in self.stack:
            self.scripts[-1] += data
        elif "style" not in self.stack:
            self.text += data
            if "caption" in self.stack:
                self.caption += data.strip()
            elif {"th", "td"} & set(self.stack):
                self.rows[-1][-1] = " ".join((self.rows[-1][-1] + " " + data.replace("\u00a0", " ")).split())

    def table(self, words: str) -> dict[str, list[str]]:
        """The one table with these words in its caption, as rows by heading."""
        (found,) = (rows for caption, rows in self.tables.items() if words in caption)
        return found

    @property
    def specs(self) -> dict[str, Any]:
        """The figures of the page."""
        value: dict[str, Any] = json.loads(self.scripts[0])
        return value

    @property
    def words(self) -> str:
        """All text with plain single spaces."""
        return " ".join(self.text.split())


def read(path: Path) -> Read:
    page = Read()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page
