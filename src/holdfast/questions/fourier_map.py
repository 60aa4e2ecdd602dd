"""Maps over Fourier frequencies, of which only half are independent: measured once, drawn whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

from holdfast.show.figures import Figure
from holdfast.show.heat_map import heat_map

Frequency = tuple[int, int]
"""Periods in height and in width, from 0 on."""

WIDTH = 0.05
"""Of the rings that a map is averaged over, in periods per pixel."""
RADIUS = "periods per pixel, in any direction"
THIRDS = ("Lowest third", "Middle third", "Highest third")


def independent(height: int, width: int) -> list[Frequency]:
    """One of each pair of frequencies (i, j) and (-i, -j), whose real waves are the same: 514 for 32x32 pixels."""
    every = ((i, j) for i in range(height) for j in range(width))
    return [(i, j) for i, j in every if (i, j) <= (-i % height, -j % width)]


def signed(frequency: Frequency, height: int, width: int) -> Frequency:
    """The same frequency nearest to 0."""
    i, j = frequency
    return (i + height // 2) % height - height // 2, (j + width // 2) % width - width // 2


def radius(frequency: Frequency, height: int, width: int) -> float:
    """Periods per pixel along the wave, from 0 to the square root of a half."""
    i, j = signed(frequency, height, width)
    return math.hypot(i / height, j / width)


def whole_map(values: Sequence[float], height: int, width: int) -> list[list[float | None]]:
    """All frequencies with 0 in the middle, from the values of the independent ones; None for those not measured."""
    measured = dict(zip(independent(height, width), values, strict=False))
    measured |= {(-i % height, -j % width): value for (i, j), value in measured.items()}
    rows, columns = (range(-(side // 2), (side + 1) // 2) for side in (height, width))
    return [[measured.get((i % height, j % width)) for j in columns] for i in rows]


def fourier_map(
    title: str, values: Sequence[float], size: tuple[int, int], *, hover: str, ends: tuple[float, float]
) -> Figure:
    """Values of the independent frequencies as a map with 0 in the middle."""
    height, width = size
    places = range(-(width // 2), (width + 1) // 2), range(-(height // 2), (height + 1) // 2)
    return heat_map(
        title, whole_map(values, height, width), axes=("periods in width", "periods in height"), places=places,
        ends=ends, hover=f"{hover} at (%{{y}}, %{{x}})", from_top=True,
    )  # fmt: skip


def by_radius(values: Sequence[float], size: tuple[int, int]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Means over rings of frequencies, at the mean radius of each."""
    rings: dict[int, list[tuple[float, float]]] = {}
    for frequency, value in zip(independent(*size), values, strict=False):
        away = radius(frequency, *size)
        rings.setdefault(round(away / WIDTH), []).append((away, value))
    means = [tuple(sum(each) / len(each) for each in zip(*rings[ring], strict=True)) for ring in sorted(rings)]
    x, y = zip(*means, strict=True) if means else ((), ())
    return x, y


def in_thirds(values: Sequence[float], size: tuple[int, int]) -> list[float | None]:
    """Means over the third of the frequencies with the smallest radius, the next and the last; None of none."""
    order = sorted(range(len(values)), key=[radius(each, *size) for each in independent(*size)].__getitem__)
    parts = [order[len(order) * third // 3 : len(order) * (third + 1) // 3] for third in range(3)]
    return [sum(values[place] for place in part) / len(part) if part else None for part in parts]
