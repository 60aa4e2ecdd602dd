"""Ledgers of versions that did not keep the traits of methods: what the names and fields of these methods imply.

This is history and never grows: methods of later versions state their traits, and the ledger keeps them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from holdfast.errors import LedgerError
from holdfast.json_text import parse_json
from holdfast.traits import GREY, NETWORK, SIGMA, SMOOTHED, Access, Kind, Traits, finite

DECISIONS = frozenset({"hopskipjump", "boundary"})
SCORES = frozenset({"square", "simba", "spsa", "nes"})
SHORT = frozenset({"fgsm", "rfgsm", "targeted"})
"""Attacks of a single step, or towards a single class."""
NEAREST = frozenset({"fab", "deepfool", "ddn", "fmn", "cw", "cw_linf", "hopskipjump", "boundary"})
ABOUT_THE_NETWORK = frozenset({"margin", "mixture_margin"})
FAMILIES = {"common": "common corruptions", "stored": "stored corruptions", "bar": "C-bar"}

TRAITS: dict[str, Any] = {
    "kind": pl.String, "access": pl.String, "thorough": pl.Boolean, "minimises": pl.Boolean, "certifies": pl.String,
    "family": pl.String, "axis": pl.String, "size": pl.Float64,
}  # fmt: skip


def with_traits(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of a ledger with the traits of every check, also of those that an earlier version left without.

    Args:
        rows: with the columns check, method and params; `radius` tells certificates apart.
    """
    rows = rows.with_columns(
        pl.lit(None, kind).alias(name) for name, kind in TRAITS.items() if name not in rows.columns
    )
    if rows["kind"].null_count() == 0:
        return rows
    proves = pl.col("radius").is_not_null() if "radius" in rows.columns else pl.lit(value=False)
    keys = ["check", "method", "params"]
    former = rows.filter(pl.col("kind").is_null()).group_by(keys, maintain_order=True).agg(proves=proves.any())
    stated = [
        traits_of_name(method, parsed(check, params), certificate=certificate).columns()
        for check, method, params, certificate in former.iter_rows()
    ]
    implied = pl.DataFrame(stated, schema=TRAITS).rename({name: f"former_{name}" for name in TRAITS})
    joined = rows.join(
        pl.concat([former.select(keys), implied], how="horizontal"), on=keys, how="left", nulls_equal=True,
        maintain_order="left",
    )  # fmt: skip
    old = pl.col("kind").is_null()
    chosen = [pl.when(old).then(pl.col(f"former_{name}")).otherwise(pl.col(name)).alias(name) for name in TRAITS]
    return joined.with_columns(chosen).select(rows.columns)


def with_access(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows whose components of composed attacks state the access that they need, as earlier versions did not."""
    kind: Any = rows.schema.get("steps")
    step = getattr(kind, "inner", None)
    if not isinstance(step, pl.Struct) or "access" in (names := [field.name for field in step.fields]):
        return rows
    each = pl.element().struct
    access = each.field("step").replace_strict(_accesses(rows), default=None, return_dtype=pl.String).alias("access")
    own = [each.field(name) for name in names]
    return rows.with_columns(pl.col("steps").list.eval(pl.struct(own[0], access, *own[1:])))


def _accesses(rows: pl.DataFrame) -> dict[str, str | None]:
    steps = rows["steps"].explode().struct.field("step").drop_nulls().unique().to_list()
    return {step: None if step == "clean" else access_of_name(step) for step in steps}


def traits_of_name(method: str, params: Mapping[str, Any], *, certificate: bool) -> Traits:
    """What name and fields of a check imply."""
    if certificate:
        return Traits(kind=Kind.CERTIFICATE, certifies=NETWORK if method in ABOUT_THE_NETWORK else SMOOTHED)
    inner, fields = _innermost(method, params)
    if "threat" in fields:
        axis, size = _ball(fields["threat"])
        thorough = not SHORT & {method, inner}
        nearest = inner in NEAREST and not fields.get("until_lost")
        return Traits(
            kind=Kind.ATTACK, access=Access.NOTHING if method == "transfer" else access_of_name(inner),
            thorough=thorough, minimises=nearest, axis=axis, size=size,
        )  # fmt: skip
    axis, size = _strength(method, params)
    return Traits(
        kind=Kind.CLEAN if method == "clean" else Kind.CORRUPTION, family=FAMILIES.get(method), axis=axis, size=size
    )


def access_of_name(method: str) -> str:
    """What an attack of this name must know of the network; also of a component such as `apgd-ce`."""
    name = method.partition("-")[0].partition(" ")[0]
    return Access.DECISIONS if name in DECISIONS else Access.SCORES if name in SCORES else Access.GRADIENTS


NAMED = re.compile(r"\b(?P<norm>\w+) eps=(?P<eps>[\d.e+-]+(?:/\d+)?)")
"""The threat in the name of an attack, such as `pgd linf eps=8/255 steps=20`."""


def threat_of_name(check: str) -> tuple[str | None, float | None, bool]:
    """Norm and eps of an attack that left no rows, and whether it minimises a distance."""
    budget = NAMED.search(check)
    if budget is None:
        return None, None, False
    top, _, bottom = budget["eps"].partition("/")
    minimises = not NEAREST.isdisjoint(check.split()) and "until_lost=True" not in check.split()
    return budget["norm"], float(top) / float(bottom or 1), minimises


def parsed(check: str, params: str | None) -> Mapping[str, Any]:
    """The fields of a check from its JSON.

    Raises:
        LedgerError: if it is none.
    """
    try:
        value = parse_json(params or "{}")
    except ValueError as error:
        raise LedgerError(f"check '{check}': expected its params as JSON ({error})") from error
    return value if isinstance(value, dict) else {}


def _innermost(method: str, params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The method that searches: of an attack that runs another, the one in its field `attack`."""
    while "threat" not in params and isinstance(inner := params.get("attack"), dict) and len(inner) == 1:
        ((method, fields),) = inner.items()
        params = fields if isinstance(fields, dict) else {}
    return method, params


def _ball(threat: object) -> tuple[str | None, float | None]:
    if not isinstance(threat, dict) or len(threat) != 1:
        return None, None
    ((norm, fields),) = threat.items()
    size = finite(fields.get("eps")) if isinstance(fields, dict) else None
    return (None, None) if size is None else (str(norm), size)


def _strength(method: str, params: Mapping[str, Any]) -> tuple[str | None, float | None]:
    if method == "gaussian_noise":
        variance = finite(params.get("variance"))
        size = finite(params.get("sigma")) if variance is None or variance < 0 else math.sqrt(variance)
        return (None, None) if size is None else (SIGMA, size)
    if method == "linear" and (ratio := finite(params.get("ratio"))) is not None:
        return GREY, round(1 - ratio, 12)
    if method == "uniform_noise" and (eps := finite(params.get("eps"))) is not None:
        return "linf", eps
    return None, None
