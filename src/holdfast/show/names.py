"""How norms are written, and how names of runs are shortened: one rule for every medium."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NORMS = {"linf": "ℓ∞", "l2": "ℓ2", "l1": "ℓ1", "l0": "ℓ0"}
"""Norms as readers know them, in the order in which they are shown."""


def norm_sign(norm: str) -> str:
    """A norm as readers know it; any other name as it is."""
    return NORMS.get(norm, norm)


def ordered_norms(norms: Iterable[str]) -> list[str]:
    """Each norm once: the known ones in their order, then others by name."""
    order = list(NORMS)
    return sorted(set(norms), key=lambda norm: (order.index(norm) if norm in order else len(order), norm))


def labels(names: Sequence[str]) -> list[str]:
    """A label for each name: without the parts that all share, and no two alike."""
    return unique(shortened(names))


def shortened(names: Sequence[str]) -> list[str]:
    """Names without the parts between slashes that all begin or end with: what tells them apart."""
    parts = [name.split("/") for name in names]
    if len(set(names)) < len(names) or len(names) < 2:
        return list(names)
    head = _shared(parts)
    tail = _shared([part[head:][::-1] for part in parts])
    short = ["/".join(part[head : len(part) - tail]) for part in parts]
    return short if all(short) else list(names)


def _shared(parts: Sequence[Sequence[str]]) -> int:
    """How many leading parts are the same in all."""
    same = [len(set(column)) == 1 for column in zip(*parts, strict=False)]
    return same.index(False) if False in same else len(same)


def unique(names: Sequence[str]) -> list[str]:
    """The same names; a number tells those apart that are equal."""
    labels: list[str] = []
    for name in names:
        label, number = name, 1
        while label in labels:
            number += 1
            label = f"{name} ({number})"
        labels.append(label)
    return labels
