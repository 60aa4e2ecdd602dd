"""What a method is, stated beside its fields and asked for here: nobody else keeps lists of names of methods.

A method states its traits as class attributes, or as properties where they depend on its fields. The ledger has a
column for each, so that reports and verdicts treat a method of a plug-in as they treat ours.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.errors import RecipeError


class Access(enum.StrEnum):
    """What an attack must know of the network that it attacks."""

    GRADIENTS = "gradients"
    SCORES = "scores"
    DECISIONS = "decisions"
    NOTHING = "nothing"
    """It attacks another network and transfers what it finds there, or looks at none."""


class Kind(enum.StrEnum):
    """What a check does with an image."""

    CLEAN = "clean"
    CORRUPTION = "corruption"
    ATTACK = "attack"
    CERTIFICATE = "certificate"


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What the ledger records of a check beside its name and fields; None where it does not apply or is unknown.

    Args:
        kind: what it does with an image, a `Kind`.
        access: what an attack must know of the network, an `Access`.
        thorough: whether what an attack leaves is evidence: it takes several steps, towards any wrong class.
        minimises: whether an attack looks for the nearest wrong answer, so that its distances count at every eps.
        certifies: what a certificate is about: the network, or its smoothed version, and a level if it is about groups.
        family: what people call corruptions that come by kind and severity.
        axis: what the size of the check is measured in: a norm, the deviation of noise, the share of grey.
        size: eps, standard deviation or share.
    """

    kind: str | None = None
    access: str | None = None
    thorough: bool | None = None
    minimises: bool | None = None
    certifies: str | None = None
    family: str | None = None
    axis: str | None = None
    size: float | None = None

    def columns(self) -> dict[str, Any]:
        """The traits as columns of a ledger."""
        return asdict(self)


NETWORK, SMOOTHED = "network", "smoothed network"
"""What a certificate may be about."""


def at_level(about: str, level: str | None) -> str:
    """What a certificate is about that proves something of the groups of a level; None for one of the classes."""
    return about if level is None else f"{about}, {level}"


def is_smoothed(certifies: str | None) -> bool:
    """Whether a certificate is about the smoothed network, or its groups."""
    return certifies is None or certifies.partition(",")[0] != NETWORK


SIGMA, GREY = "sigma", "grey"
"""Axes beside the norms: standard deviation of Gaussian noise, and share of grey in images that fade."""


def traits_of(check: Any) -> Traits:
    """The traits that a check states; those of a wrapper that it does not state are those of what it wraps."""
    if hasattr(check, "threat"):
        threat = threat_of(check)
        size = finite(threat.eps)
        return Traits(
            kind=Kind.ATTACK, access=_stated(check, "access"), thorough=_stated(check, "thorough", True),
            minimises=_stated(check, "minimises", False), size=size,
            axis=None if size is None else type(threat).__name__.lower(),
        )  # fmt: skip
    if hasattr(check, "smoothed"):
        about = SMOOTHED if check.smoothed else NETWORK
        return Traits(kind=Kind.CERTIFICATE, certifies=at_level(about, getattr(check, "certified_level", None)))
    axis, amount = getattr(check, "strength", (None, None))
    kind = Kind.CLEAN if getattr(check, "clean", False) else Kind.CORRUPTION
    return Traits(kind=kind, family=getattr(check, "family", None), axis=axis, size=finite(amount))


def threat_of(attack: Any) -> Any:
    """The threat of an attack.

    Raises:
        RecipeError: if it is something else.
    """
    threat = attack.threat
    if not (hasattr(threat, "eps") and hasattr(threat, "distance")):
        raise RecipeError(f"{type(attack).__name__}.threat: expected a threat, such as Linf(0.1); got {threat!r}")
    return threat


def _stated(attack: Any, trait: str, default: Any = None) -> Any:
    return next((getattr(each, trait) for each in unwrapped(attack) if hasattr(each, trait)), default)


def unwrapped(attack: Any) -> Iterator[Any]:
    """An attack, the one that it wraps, and so on."""
    yield attack
    while (field := getattr(attack, "wraps", None)) is not None:
        attack = getattr(attack, field)
        yield attack


def finite(value: object) -> float | None:
    """The value as a finite number, or None when it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
