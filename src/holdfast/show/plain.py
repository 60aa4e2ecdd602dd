"""Items as plain values, for machines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from holdfast.show.items import Card, Choice, Code, Details, Heading, Item, Note
from holdfast.show.table import Cell, Table


def to_plain(items: Iterable[Item]) -> list[dict[str, Any]]:
    """Sentences, headings, tables and what orders them; charts hold nothing that the tables beside them lack."""
    return [plain for item in items if (plain := _item(item))]


def _item(item: Item) -> dict[str, Any]:
    """One item; empty for charts, pictures, guides for readers, and what folds only these."""
    if isinstance(item, Table):
        rows = [{"name": name, "cells": [_cell(cell) for cell in cells]} for name, cells in item.rows]
        columns = [", ".join(heading) for heading in item.headings()]
        return {
            "caption": item.caption, "corner": item.corner, "columns": columns, "rows": rows, "totals": item.totals,
        }  # fmt: skip
    if isinstance(item, Heading):
        return {"heading": item.text}
    if isinstance(item, Details):
        inside = to_plain(item.items)
        return {"details": item.summary, "items": inside} if inside else {}
    if isinstance(item, Choice):
        return {"choice": [{"name": name, "items": to_plain(some)} for name, some in item.options]}
    if isinstance(item, Card):
        return {"card": asdict(item)}
    if isinstance(item, Code):
        return {"text": item.text}
    guide = isinstance(item, Note) and item.tone == "guide"
    return {"text": str(item)} if isinstance(item, str | Note) and not guide else {}


def _cell(cell: Cell) -> Any:
    """The number where there is one; otherwise the text of the cell."""
    return cell.text if cell.value is None else cell.value
