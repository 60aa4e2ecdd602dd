"""Cells of a table whose columns are variants: one run's value, or the mean over the seeds of a variant."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.cli.screen import interval, percent


@dataclass(frozen=True)
class Seeds:
    """How many runs stand behind a cell.

    Args:
        column: seeds of the cell's variant.
        table: the most that a variant of the table has, which its heading names.
    """

    column: int
    table: int

    def share(self, cells: Sequence[dict[str, Any]]) -> str:
        """An accuracy with its interval, or the mean over seeds with its standard deviation; empty without cells."""
        most = "at most " if any(cell["accuracy"] is None for cell in cells) else ""
        values = [cell["at_most"] if cell["accuracy"] is None else cell["accuracy"] for cell in cells]
        if len(cells) == 1:
            text = f"{percent(values[0])} {interval(cells[0]['low'], cells[0]['high'])}"
            return f"{most}{text}{self._fewer(1)}"
        return most + self.mean([100 * value for value in values], lambda value: f"{value:.1f}", " %") if cells else ""

    def mean(self, values: Sequence[float], digits: Callable[[float], str], unit: str = "") -> str:
        """The only value, or the mean over seeds with its standard deviation; empty without values."""
        if not values:
            return ""
        spread = f" ± {digits(statistics.stdev(values))}" if len(values) > 1 else ""
        return f"{digits(statistics.fmean(values))}{unit}{spread}{self._fewer(len(values))}"

    def _fewer(self, number: int) -> str:
        """A note for a cell that has fewer seeds than the heading states."""
        if number < self.column:
            return f" ({number} of {self.column} seeds)"
        return "" if number == self.table else f" ({number} seed{'' if number == 1 else 's'})"
