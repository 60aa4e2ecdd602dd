"""Magnitudes of cosine transforms: as maps, and along the diagonal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from holdfast.show.figures import Figure
from holdfast.show.heat_map import heat_map

DARKEST = 1e-6
"""Of the largest magnitude; what is smaller is drawn as this."""

Magnitudes = Sequence[Sequence[float]]
"""Of each frequency: rows go along the width, from row to row the height."""


def spectrum_map(title: str, magnitudes: Magnitudes, *, high_is_worse: bool = False) -> Figure:
    """All magnitudes relative to the largest, as powers of ten, the lowest frequencies in the upper left corner."""
    largest = max((value for line in magnitudes for value in line), default=0.0) or 1.0
    logs = [[round(math.log10(max(value / largest, DARKEST)), 3) for value in line] for line in magnitudes]
    return heat_map(
        f"{title}, relative to the largest, as powers of ten", logs, axes=("frequency in width", "frequency in height"),
        hover="10^%{z:.2f} at (%{y}, %{x})", high_is_worse=high_is_worse, from_top=True,
    )  # fmt: skip


def along_diagonal(magnitudes: Magnitudes) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Positions and magnitudes along the diagonal, without zeros, which no logarithmic axis has.

    Of images with sides of different length it goes along both in the same proportion.
    """
    height, width = len(magnitudes), len(magnitudes[0])
    steps = max(height, width)
    line = [magnitudes[step * height // steps][step * width // steps] for step in range(steps)]
    places = [(float(step), value) for step, value in enumerate(line) if value > 0]
    x, y = zip(*places, strict=True) if places else ((), ())
    return x, y
