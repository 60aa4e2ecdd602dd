"""What questions do with their fields; each error names the field."""

from __future__ import annotations

import math
from collections.abc import Sequence


def ordered(sizes: Sequence[float]) -> list[float]:
    """Sizes from the smallest, each once."""
    return sorted(set(sizes))


def require_sizes(**fields: Sequence[float]) -> None:
    """Refuse fields that are not lists of finite numbers from 0 on."""
    for name, values in fields.items():
        if not values or not all(0 <= value < math.inf for value in values):
            raise ValueError(f"{name}: expected numbers from 0 on, such as 0,0.25,0.5; got {list(values)}")


def require_positive(**fields: float) -> None:
    """Refuse fields that are not finite numbers above 0."""
    for name, value in fields.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name}: expected a positive number; got {value:g}")


def require_not_negative(**fields: float) -> None:
    """Refuse fields that are not finite numbers from 0 on."""
    for name, value in fields.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name}: expected a number from 0 on; got {value:g}")


def require_at_least(least: int, **fields: int) -> None:
    """Refuse fields below a number."""
    for name, value in fields.items():
        if value < least:
            raise ValueError(f"{name}: expected at least {least}; got {value}")
