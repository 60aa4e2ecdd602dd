"""The checks of a ledger: their order on the page, and the budget that each allows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from holdfast.errors import LedgerError
from holdfast.report.numbers import finite
from holdfast.results import is_certificate

SIGMA, GREY = "sigma", "grey"

MINIMUM_NORM = frozenset({"fab", "deepfool", "ddn", "fmn", "cw", "cw_linf", "hopskipjump", "boundary"})
"""Attacks whose point is the nearest success they found, and not just one within eps."""

AROUND = frozenset({"aimed", "targeted", "eight_bit", "eot", "transfer"})
"""Methods that run another attack, which stands in their field `attack`."""


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
        return "threat" in self.params or (self.method in AROUND and "attack" in self.params)

    @property
    def budget(self) -> Budget | None:
        """Where the check stands on an axis; None for methods without one."""
        axis, size = _axis_and_size(self.method, self.params)
        return None if size is None else Budget(axis, size)

    @property
    def nearest(self) -> Budget | None:
        """Norm and largest distance of a check that looks for the nearest success; None for all others."""
        method, params = self.method, self.params
        while method in AROUND and isinstance(inner := params.get("attack"), dict) and len(inner) == 1:
            ((method, fields),) = inner.items()
            params = fields if isinstance(fields, dict) else {}
        if method not in MINIMUM_NORM or params.get("until_lost"):
            return None
        axis, size = _axis_and_size(method, params)
        return None if size is None else Budget(axis, size)


def checks_of(rows: pl.DataFrame) -> tuple[Check, ...]:
    """The checks of some rows: clean first, then by method and from weak to strong."""
    names = rows.group_by("check", maintain_order=True).agg(
        pl.col("method", "params").first(), certificate=is_certificate().any()
    )
    return tuple(sorted((Check(n, m, _parsed(n, p), c) for n, m, p, c in names.iter_rows()), key=_order))


def _order(check: Check) -> tuple[bool, str, str, float, str]:
    budget = check.budget or Budget("", 0.0)
    return not check.clean, check.method, budget.axis, budget.size, check.name


def _parsed(name: str, params: str | None) -> Mapping[str, Any]:
    try:
        value = json.loads(params or "{}")
    except json.JSONDecodeError as error:
        raise LedgerError(f"check '{name}': expected its params as JSON ({error})") from error
    return value if isinstance(value, dict) else {}


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
