"""Attacks that nobody leaves at the first success, for whoever wants the highest loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.types import Attack


def to_the_end(attack: Attack) -> Attack:
    """The attack, and any attack inside it, without stopping at the first success."""
    change: Any = replace
    inside = getattr(attack, "attack", None)
    if callable(inside):
        persistent = to_the_end(inside)
        attack = attack if persistent is inside else change(attack, attack=persistent)
    return change(attack, until_lost=False) if getattr(attack, "until_lost", False) else attack
