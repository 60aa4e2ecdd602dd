"""Attacks that nobody leaves at the first success, for whoever wants the highest loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.attacks.apgd import APGD
from holdfast.attacks.apgd_targeted import TargetedAPGD
from holdfast.attacks.eight_bit import EightBit
from holdfast.attacks.fgsm import FGSM
from holdfast.attacks.pgd import PGD
from holdfast.attacks.rfgsm import RFGSM
from holdfast.types import Attack

PERSISTENT = (PGD, APGD, TargetedAPGD, FGSM, RFGSM)
"""Attacks that can, or must, use all their steps on every example."""


def make_persistent(attack: Attack) -> Attack:
    """The attack, and any attack inside it, without stopping at the first success."""
    change: Any = replace
    inside = getattr(attack, "attack", None)
    if callable(inside):
        persistent = make_persistent(inside)
        attack = attack if persistent is inside else change(attack, attack=persistent)
    return change(attack, until_lost=False) if getattr(attack, "until_lost", False) else attack


def check_persistent(who: str, attack: Attack) -> None:
    """Refuse attacks of ours that leave an example where the classifier they climb has lost it.

    On another classifier such a point is weak, and the clean image, which some return, is none at all. Attacks of
    others are taken at their word.

    Raises:
        ValueError: with those that do not leave.
    """
    kind, inside = type(attack), getattr(attack, "attack", None)
    if callable(inside) and not isinstance(attack, EightBit):  # which looks for success on the grid by itself
        check_persistent(who, inside)
    elif kind.__module__.startswith("holdfast.attacks") and not isinstance(attack, PERSISTENT):
        raise ValueError(
            f"{who} tries what the attack finds on another classifier, so that it must climb to the end; "
            f"expected pgd, apgd, apgd_targeted, fgsm or rfgsm, got {kind.__name__}"
        )
