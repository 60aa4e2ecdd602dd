"""The checks of a ledger as its rows describe them: their order, and the budget that each allows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from holdfast.errors import LedgerError
from holdfast.results import is_certificate

SIGMA, GREY = "sigma", "grey"

MINIMUM_NORM = frozenset({"fab", "deepfool", "ddn", "fmn", "cw", "cw_linf", "hopskipjump", "boundary"})
"""Attacks whose point is the nearest success they found, and not just one within eps."""


@dataclass(frozen=True)
class Budget:
    """How far a check goes: a size on an axis.

    Args:
        axis: "sigma" for Gaussian noise, "grey" for images that fade, otherwise the name of a norm.
        size: standard deviation, share of grey, or eps in that norm.
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
        certificate: whether it proves something, and changes no image.
    """

    name: str
    method: str
    params: Mapping[str, Any]
    certificate: bool = False

    @property
    def clean(self) -> bool:
        """Whether the images are left as they are."""
        return self.method == "clean"

    @property
    def attack(self) -> bool:
        """Whether it searches for a wrong answer."""
        return "threat" in _innermost(self.method, self.params)[1]

    @property
    def threat(self) -> Budget | None:
        """Norm and eps of an attack, also of one that runs inside another; None for all other checks."""
        return _budget(*_innermost(self.method, self.params)) if self.attack else None

    @property
    def budget(self) -> Budget | None:
        """Where the check stands on an axis; None for methods without one."""
        return _budget(self.method, self.params)

    @property
    def nearest(self) -> Budget | None:
        """Norm and largest distance of a check that looks for the nearest success; None for all others."""
        method, params = _innermost(self.method, self.params)
        return self.threat if method in MINIMUM_NORM and not params.get("until_lost") else None


def checks_of(rows: pl.DataFrame) -> tuple[Check, ...]:
    """The checks of some rows: clean first, then by method and from weak to strong."""
    names = rows.group_by("check", maintain_order=True).agg(
        pl.col("method", "params").first(), certificate=is_certificate().any()
    )
    return tuple(sorted((Check(n, m, parsed(n, p), c) for n, m, p, c in names.iter_rows()), key=_order))


def _innermost(method: str, params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The method that searches: of an attack that runs another, the one in its field `attack`."""
    while "threat" not in params and isinstance(inner := params.get("attack"), dict) and len(inner) == 1:
        ((method, fields),) = inner.items()
        params = fields if isinstance(fields, dict) else {}
    return method, params


def _order(check: Check) -> tuple[bool, str, str, float, str]:
    budget = check.budget or Budget("", 0.0)
    return not check.clean, check.method, budget.axis, budget.size, check.name


def parsed(name: str, params: str | None) -> Mapping[str, Any]:
    """The fields of a check from its JSON."""
    try:
        value = json.loads(params or "{}")
    except json.JSONDecodeError as error:
        raise LedgerError(f"check '{name}': expected its params as JSON ({error})") from error
    return value if isinstance(value, dict) else {}


def _budget(method: str, params: Mapping[str, Any]) -> Budget | None:
    axis, size = _axis_and_size(method, params)
    return None if size is None else Budget(axis, size)


def _axis_and_size(method: str, params: Mapping[str, Any]) -> tuple[str, float | None]:
    if method == "gaussian_noise":
        return SIGMA, _deviation(params)
    if method == "linear":
        ratio = finite(params.get("ratio"))
        return GREY, None if ratio is None else round(1 - ratio, 12)
    if method == "uniform_noise":  # random, in the same cube that an attack in linf searches
        return "linf", finite(params.get("eps"))
    threat = params.get("threat")
    if isinstance(threat, dict) and len(threat) == 1:
        ((norm, fields),) = threat.items()
        return norm, finite(fields.get("eps")) if isinstance(fields, dict) else None
    return "", None


def _deviation(params: Mapping[str, Any]) -> float | None:
    variance = finite(params.get("variance"))
    if variance is not None and variance >= 0:
        return math.sqrt(variance)
    return finite(params.get("sigma"))


def fraction(eps: float) -> str:
    """A budget as it is usually written, 8/255 or 0.5; different budgets never look the same."""
    levels = round(eps * 255)
    if eps != round(eps, 3) and levels > 0 and levels / 255 == eps:
        return f"{levels}/255"
    return f"{eps:g}" if float(f"{eps:g}") == eps else repr(eps)


def finite(value: object) -> float | None:
    """The value as a finite number, or None when it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
