"""The white-box attack that is tried where none is chosen."""

from __future__ import annotations

from holdfast.attacks.apgd import APGD
from holdfast.threat.l1 import L1
from holdfast.types import Threat

USUAL_STEPS = 50
"""Steps of the attack."""

SPARSE_STEPS, SPARSE_RESTARTS = 100, 5
"""The same in l1, where AutoAttack has as many: ascents there end in many different places."""


def usual(threat: Threat) -> APGD:
    """The white-box attack that is tried where none is chosen."""
    if isinstance(threat, L1):
        return APGD(threat=threat, steps=SPARSE_STEPS, restarts=SPARSE_RESTARTS)
    return APGD(threat=threat, steps=USUAL_STEPS)
