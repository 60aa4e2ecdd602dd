"""What can be shown."""

from __future__ import annotations

from holdfast.show.chart import Chart
from holdfast.show.figures import Figure
from holdfast.show.table import Table

Item = str | Table | Chart | Figure
"""A sentence, a table, a chart of lines, or any other chart as plotly has it."""
