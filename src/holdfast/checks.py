"""Checks: what can be done to an image before asking the model again, and what can be proved."""

from __future__ import annotations

from holdfast.attacks.transfer import Transfer
from holdfast.families import CHECKS
from holdfast.types import Attack, Certifier, Corruption, StoredImages

__all__ = ["CHECKS", "Check", "is_attack", "is_certifier"]

Check = Corruption | StoredImages | Attack | Transfer | Certifier
"""What a ledger row is about: a corruption (clean images and stored ones too), an attack or a certificate."""


def is_attack(check: Check) -> bool:
    """Whether the check searches for a point that the model gets wrong; corruptions and certifiers do not."""
    return hasattr(check, "threat")


def is_certifier(check: Check) -> bool:
    """Whether the check proves something and leaves the images as they are."""
    return isinstance(check, Certifier)
