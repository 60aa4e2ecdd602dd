"""Attacks: each searches the threat set of every example for a point that the model gets wrong."""

from holdfast.attacks.fgsm import FGSM
from holdfast.attacks.pgd import PGD
from holdfast.attacks.targeted import Targeted
from holdfast.types import Attack

ATTACKS: dict[str, type[Attack]] = {"fgsm": FGSM, "pgd": PGD, "targeted": Targeted}

__all__ = ["ATTACKS", "FGSM", "PGD", "Targeted"]
