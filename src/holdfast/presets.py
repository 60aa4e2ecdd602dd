"""Lists of checks by what one wants to know and how long one is willing to wait."""

from __future__ import annotations

from holdfast.attacks.autoattack import AutoAttack
from holdfast.attacks.fgsm import FGSM
from holdfast.attacks.pgd import PGD
from holdfast.checks import Check
from holdfast.corruptions.common.corruption import Common
from holdfast.corruptions.common.tables import SEVERITIES, STANDARD
from holdfast.corruptions.noise import Clean, GaussianNoise, UniformNoise
from holdfast.errors import RecipeError, unknown
from holdfast.losses import difference_of_logits_ratio
from holdfast.threat.l1 import L1
from holdfast.threat.l2 import L2
from holdfast.threat.linf import Linf


def _quick() -> list[Check]:
    """A first look: noise, and two attacks at one budget."""
    return [
        Clean(),
        GaussianNoise(0.1),
        FGSM(threat=Linf(8 / 255)),
        PGD(threat=Linf(8 / 255), steps=10),
    ]


def _standard() -> list[Check]:
    """Noise, and attacks in three norms, the strongest of them PGD from one start: upper bounds of robust accuracy."""
    return [
        Clean(),
        *[GaussianNoise(sigma) for sigma in (0.05, 0.1, 0.2)],
        UniformNoise(8 / 255),
        FGSM(threat=Linf(8 / 255)),
        *[PGD(threat=Linf(eps / 255), steps=20) for eps in (2, 4, 8)],
        *[PGD(threat=L2(eps), steps=20) for eps in (0.25, 0.5, 1.0)],
        PGD(threat=L1(12.0), steps=50),
    ]


def _full() -> list[Check]:
    """Many budgets, restarts and a second loss; takes long."""
    return [
        Clean(),
        *[GaussianNoise(sigma) for sigma in (0.025, 0.05, 0.1, 0.2, 0.3, 0.5)],
        *[UniformNoise(eps / 255) for eps in (8, 16, 32)],
        *[FGSM(threat=Linf(eps / 255)) for eps in (2, 4, 8, 16)],
        *[PGD(threat=Linf(eps / 255), steps=50, restarts=5) for eps in (1, 2, 4, 8, 16)],
        PGD(threat=Linf(8 / 255), steps=50, restarts=5, loss=difference_of_logits_ratio),
        *[PGD(threat=L2(eps), steps=50, restarts=5) for eps in (0.25, 0.5, 1.0, 2.0)],
        *[PGD(threat=L1(eps), steps=100, restarts=5) for eps in (4.0, 12.0)],
    ]


def _autoattack_linf() -> list[Check]:
    """AutoAttack in linf at 8/255, the field's standard for CIFAR-10."""
    return [Clean(), AutoAttack(threat=Linf(8 / 255))]


def _autoattack_l2() -> list[Check]:
    """AutoAttack in l2 at 0.5, the field's standard for CIFAR-10."""
    return [Clean(), AutoAttack(threat=L2(0.5))]


def _autoattack() -> list[Check]:
    """AutoAttack in linf at 8/255 and in l2 at 0.5."""
    return [*_autoattack_linf(), *_autoattack_l2()[1:]]


def _common() -> list[Check]:
    """The 15 standard kinds of common corruptions at severities 1 to 5, as in CIFAR-10-C."""
    return [Clean(), *[Common(kind, severity) for kind in STANDARD for severity in SEVERITIES]]


PRESETS = {
    "quick": _quick,
    "standard": _standard,
    "full": _full,
    "autoattack": _autoattack,
    "autoattack-linf": _autoattack_linf,
    "autoattack-l2": _autoattack_l2,
    "common": _common,
}
"""By name; `cli/presets.py` has their cost."""


def preset(name: str) -> list[Check]:
    """The checks of a preset."""
    if name not in PRESETS:
        raise RecipeError(f"checks: {unknown(name, PRESETS)}")
    return PRESETS[name]()
