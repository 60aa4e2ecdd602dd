"""Threats of another size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.types import Threat


def with_radius(threat: Threat, eps: float) -> Threat:
    """The same threat with another radius."""
    change: Any = replace
    changed: Threat = change(threat, eps=eps)
    return changed
