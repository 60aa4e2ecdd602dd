"""Checks of arguments that several objectives have."""

from __future__ import annotations

import math


def require_positive(**values: float) -> None:
    """Refuse values that are not positive and finite."""
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive{' and finite' if value > 0 else ''}, got {value}")


def require_nonnegative(**values: float) -> None:
    """Refuse values that are negative or not finite."""
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} must be finite and not negative, got {value}")
