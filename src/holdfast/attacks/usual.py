"""The white-box attack that questions and verdicts are about: that of the checks, or the usual one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.attacks.apgd import APGD
from holdfast.threat.l1 import L1
from holdfast.traits import Access, traits_of, unwrapped
from holdfast.types import Ascent, Threat

USUAL_STEPS = 50
"""Steps of the attack."""

SPARSE_STEPS, SPARSE_RESTARTS = 100, 5
"""The same in l1, where AutoAttack has as many: ascents there end in many different places."""


def usual(threat: Threat) -> APGD:
    """The white-box attack that is tried where none is chosen."""
    if isinstance(threat, L1):
        return APGD(threat=threat, steps=SPARSE_STEPS, restarts=SPARSE_RESTARTS)
    return APGD(threat=threat, steps=USUAL_STEPS)


def first_gradient_attack(checks: Iterable[Any]) -> Ascent | None:
    """The iterated gradient attack of the checks, without what wraps it: the least wrapped, of several the first."""
    chains = [list(unwrapped(check)) for check in checks if _follows_gradients(check)]
    ascents = [inner for *_, inner in sorted(chains, key=len) if isinstance(inner, Ascent)]
    return ascents[0] if ascents else None


def own_or_usual(checks: Iterable[Any]) -> Ascent | None:
    """The first gradient attack, or the usual one in the threat of the first attack; None if there is no attack."""
    checks = list(checks)
    threats = [check.threat for check in checks if hasattr(check, "threat")]
    return first_gradient_attack(checks) or (usual(threats[0]) if threats else None)


def _follows_gradients(check: Any) -> bool:
    traits = traits_of(check)
    return traits.access == Access.GRADIENTS and traits.thorough is not False
