"""The attack that a question is about."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.questions.question import Context

if TYPE_CHECKING:
    from holdfast.types import Ascent, Threat


def check_budget(norm: str | None, eps: float | None) -> None:
    """Refuse what is no budget."""
    if norm is not None and eps is None:
        raise ValueError(f"norm: expected eps beside norm {norm}")
    if eps is not None and not 0 < eps < math.inf:
        raise ValueError(f"eps: expected a positive number, such as 8/255; got {eps:g}")


def chosen_attack(context: Context, norm: str | None, eps: float | None) -> Ascent:
    """The usual attack within a budget; without one the run's own or, failing that, the usual one.

    It looks for the highest loss. The run's own is its first iterated gradient attack, or the usual one in the threat
    of its first attack.
    """
    from holdfast.attacks.usual import own_or_usual, usual
    from holdfast.families import THREATS
    from holdfast.threat.linf import Linf

    if eps is not None:
        return replace(usual(THREATS[norm or "linf"](eps)), until_lost=False)  # type: ignore[call-arg]
    return replace(own_or_usual(context.checks) or usual(Linf(8 / 255)), until_lost=False)


def attack_settings(context: Context, attack: Ascent) -> dict[str, Any]:
    """What an answer keeps of its attack: the budget, a label, and all parameters."""
    _, label, _ = context.describe(replace(attack, until_lost=True))  # which is how runs and options state it
    budget = {"norm": norm_of(attack.threat), "eps": attack.threat.eps}
    return {**budget, "attack": label, "params": context.describe(attack)[2]}


def norm_of(threat: Threat) -> str:
    """Name of the norm in which a threat is bounded."""
    from holdfast.families import THREATS

    return {kind: name for name, kind in THREATS.items()}[type(threat)]
