"""The checks of a ledger as its rows describe them: their order, and the budget that each allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from holdfast.earlier import TRAITS, parsed, with_traits
from holdfast.traits import Kind, Traits


@dataclass(frozen=True)
class Budget:
    """How far a check goes: a size on an axis.

    Args:
        axis: name of a norm, or an axis of `holdfast.traits`.
        size: eps in that norm, standard deviation of the noise, or share of grey.
    """

    axis: str
    size: float


@dataclass(frozen=True)
class Check:
    """One check as the ledger names it.

    Args:
        name: readable and unique within a run.
        method: name of the method.
        params: all its fields.
        traits: what it is.
    """

    name: str
    method: str
    params: Mapping[str, Any]
    traits: Traits = field(default_factory=Traits)

    @property
    def clean(self) -> bool:
        """Whether the images are left as they are."""
        return self.traits.kind == Kind.CLEAN

    @property
    def certificate(self) -> bool:
        """Whether it proves something, and changes no image."""
        return self.traits.kind == Kind.CERTIFICATE

    @property
    def attack(self) -> bool:
        """Whether it searches for a wrong answer."""
        return self.traits.kind == Kind.ATTACK

    @property
    def budget(self) -> Budget | None:
        """Where the check stands on an axis; None for methods without one."""
        axis, size = self.traits.axis, self.traits.size
        return None if axis is None or size is None else Budget(axis, size)

    @property
    def threat(self) -> Budget | None:
        """Norm and eps of an attack; None for all other checks."""
        return self.budget if self.attack else None

    @property
    def nearest(self) -> Budget | None:
        """Norm and largest distance of a check that looks for the nearest success; None for all others."""
        return self.threat if self.traits.minimises else None


def checks_of(rows: pl.DataFrame) -> tuple[Check, ...]:
    """The checks of some rows: clean first, then by method and from weak to strong."""
    names = with_traits(rows).group_by("check", maintain_order=True).agg(pl.col("method", "params", *TRAITS).first())
    checks = (
        Check(name, method, parsed(name, params), Traits(**dict(zip(TRAITS, traits, strict=True))))
        for name, method, params, *traits in names.iter_rows()
    )
    return tuple(sorted(checks, key=_order))


def _order(check: Check) -> tuple[bool, str, str, float, str]:
    budget = check.budget or Budget("", 0.0)
    return not check.clean, check.method, budget.axis, budget.size, check.name


def fraction(eps: float) -> str:
    """A budget as it is usually written, 8/255 or 0.5; different budgets never look the same."""
    levels = round(eps * 255)
    if eps != round(eps, 3) and levels > 0 and levels / 255 == eps:
        return f"{levels}/255"
    return f"{eps:g}" if float(f"{eps:g}") == eps else repr(eps)
