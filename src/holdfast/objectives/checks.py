"""Arguments that several objectives have."""

from __future__ import annotations


def positive(**values: float) -> None:
    """Refuse what is not positive."""
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}")
