"""Items as plain values, for machines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.show.items import Details, Heading, Item
from holdfast.show.table import Cell, Table


def to_plain(items: Iterable[Item]) -> list[dict[str, Any]]:
    """Sentences, headings, tables and details; charts hold nothing that the tables beside them lack."""
    return [_item(item) for item in items if isinstance(item, str | Heading | Table | Details)]


def _item(item: str | Heading | Table | Details) -> dict[str, Any]:
    if isinstance(item, Heading):
        return {"heading": item.text}
    if isinstance(item, Details):
        return {"details": item.summary, "items": to_plain(item.items)}
    if isinstance(item, str):
        return {"text": item}
    rows = [{"name": name, "cells": [_cell(cell) for cell in cells]} for name, cells in item.rows]
    return {"caption": item.caption, "corner": item.corner, "columns": list(item.columns), "rows": rows}


def _cell(cell: Cell) -> Any:
    """The number where there is one; otherwise the text of the cell."""
    return cell.text if cell.value is None else cell.value
