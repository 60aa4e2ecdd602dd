"""A threat that grows during training: every budget of an objective multiplied by a share.

Adversarial objectives may collapse to a constant answer when the adversary has its full budget from the first step: no
image can be classified correctly under attack, so the best answer is the share of each class. An adversary that grows
with the network avoids this.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from holdfast.threat.l0 import L0
from holdfast.threat.radius import with_radius
from holdfast.types import Objective, Threat

LENGTHS = ("step_size", "least")
"""Fields beside a threat that are lengths in its units."""


def warmup_share(warmup: float, step: int, steps: int) -> float:
    """Share of the full budget in a step, counted from 0: a linear rise that ends with the first `warmup` of all steps.

    Args:
        warmup: share of training over which the budget rises; 0 for the full budget from the start.
        step: number of the step.
        steps: number of steps of the whole training.
    """
    return min(1.0, (step + 1) / (warmup * steps)) if warmup > 0 else 1.0


def with_budget_share(objective: Objective, share: float) -> Objective:
    """The same objective with every threat in it, and the lengths beside it, multiplied by `share`."""
    scaled: Objective = _scaled(objective, share)
    return scaled


def has_growing_threat(objective: Objective) -> bool:
    """Whether a warm-up changes anything: there is a threat, and its size may differ from step to step."""
    return not getattr(objective, "fixed_threat", False) and any(True for _ in _threats(objective))


def _threats(method: Any) -> Iterator[Threat]:
    for value in _values(method).values():
        if isinstance(value, Threat):
            yield value
        else:
            yield from _threats(value)


def _scaled(method: Any, share: float) -> Any:
    values = _values(method)
    changes: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Threat):
            changes[name] = _with_share(value, share)
            changes |= {length: share * values[length] for length in LENGTHS if values.get(length) is not None}
        elif is_dataclass(value):
            changes[name] = _scaled(value, share)
    return replace(method, **changes) if changes else method


def _with_share(threat: Threat, share: float) -> Threat:
    eps = share * threat.eps
    return with_radius(threat, max(1, math.ceil(eps)) if isinstance(threat, L0) else eps)


def _values(method: Any) -> dict[str, Any]:
    if not is_dataclass(method):
        return {}
    return {field.name: getattr(method, field.name) for field in fields(method) if field.init}
