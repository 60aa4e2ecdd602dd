"""Attacks that use all their steps on every example, where the highest loss is wanted.

An attack of ours that can, or must, states `persistent = True`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.types import Attack


def make_persistent(attack: Attack) -> Attack:
    """The attack, and any attack inside it, without stopping at the first success."""
    change: Any = replace
    inside = getattr(attack, "attack", None)
    if callable(inside):
        persistent = make_persistent(inside)
        attack = attack if persistent is inside else change(attack, attack=persistent)
    return change(attack, until_lost=False) if getattr(attack, "until_lost", False) else attack


def goes_to_the_end(attack: Attack) -> bool:
    """Whether an attack goes on behind the first wrong answer, so that its point is not the nearest mistake.

    An attack of a single step does, and one that is persistent and not told to stop. Of others nobody knows.
    """
    inside, persistent = getattr(attack, "attack", None), getattr(attack, "persistent", None)
    if callable(inside) and persistent is None:
        return goes_to_the_end(inside)
    return bool(persistent) and not getattr(attack, "until_lost", False)


def check_persistent(who: str, attack: Attack) -> None:
    """Refuse attacks of ours that leave an example where the classifier they climb has lost it.

    On another classifier such a point is weak, and the clean image, which some return, is none at all. Attacks of
    others are taken at their word.

    Raises:
        ValueError: with those that do not leave.
    """
    kind, inside = type(attack), getattr(attack, "attack", None)
    persistent = getattr(attack, "persistent", None)
    if callable(inside) and persistent is not False:
        check_persistent(who, inside)
    elif kind.__module__.startswith("holdfast.attacks") and not persistent:
        raise ValueError(
            f"{who} tries what the attack finds on another classifier, so that it must climb to the end; "
            f"expected a transfer_loop such as mi, or pgd, apgd, apgd_targeted, fgsm or rfgsm; got {kind.__name__}"
        )
