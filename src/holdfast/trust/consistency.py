"""Verdicts from ledger rows alone: what the checks of one network say about each other."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import polars as pl

from holdfast.earlier import parsed, with_access, with_traits
from holdfast.results.summaries import waiting
from holdfast.traits import Access, Kind
from holdfast.trust.chance import better_than_chance
from holdfast.trust.rules import Pair, Rung, beaten, growing
from holdfast.trust.verdict import Verdict, meaningless

BLACK_BOX = frozenset({Access.SCORES, Access.DECISIONS})
"""What attacks need that a network without a useful gradient does not mislead."""

EFFORT = ("steps", "restarts", "queries", "step_size")
"""Fields that say how hard an attack tries."""

HARDER = 2.0
"""Growth of effort from which on two checks are compared."""


@dataclass(frozen=True)
class Tried:
    """One check of an attack within a ball.

    Args:
        name: of the check.
        method: of its attack.
        norm: of the ball.
        eps: its radius.
        fields: of the method and of those that it runs, without threats.
        access: what it must know of the network.
        thorough: whether what it leaves is evidence.
        held: for each example seen, whether it is still right.
    """

    name: str
    method: str
    norm: str
    eps: float
    fields: Mapping[str, Any]
    access: str | None
    thorough: bool
    held: Mapping[int, bool]

    @cached_property
    def effort(self) -> float:
        """Steps or queries in total, of the attack and of those that it runs."""
        stated = [value for name, value in _walk(self.fields) if name in EFFORT and name != "step_size"]
        return math.prod(float(value or 1) for value in stated)

    def without(self, *fields: str) -> str:
        """The method with all its fields but some, to tell which checks differ in these alone."""
        return f"{self.method} {self.norm} {json.dumps(_pruned(self.fields, {*fields, 'threat'}), sort_keys=True)}"


def from_rows(rows: pl.DataFrame) -> list[Verdict]:
    """Verdicts on the checks of one network's ledger; conditions that its checks cannot show are not tested.

    Args:
        rows: of one run and its weights, with the columns check, method, params, norm, example and correct, for
            composed attacks steps, for attacks that could not run not_run, and for chance level weights, label,
            prediction and loss; others are ignored.
    """
    chance = better_than_chance(rows)
    if chance.level == "fail":
        return [chance, *(meaningless(flag, "ledger") for flag in ("eps", "convergence", "black-box"))]
    tried = list(_tried(rows))
    return [chance, _eps(tried), _convergence(tried), _black_box(tried, rows)]


def _tried(rows: pl.DataFrame) -> Iterator[Tried]:
    settled = _finished(rows)  # leaving out only those that wait would leave mostly the broken ones
    attacks = with_traits(settled).filter((pl.col("kind") == Kind.ATTACK) & (pl.col("size") > 0))
    named = ("check", "method", "params", "axis", "size", "access", "thorough")
    for part in attacks.partition_by(named, maintain_order=True):
        check, method, params, norm, eps, access, thorough = part.select(named).row(0)
        held = dict(part.select("example", "correct").iter_rows())
        yield Tried(check, method, norm, eps, parsed(check, params), access, thorough is not False, held)


def _walk(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """All fields, also those of methods inside methods."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _walk(value)
        else:
            yield name, value


def _pruned(fields: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The fields without some, also in methods inside methods."""
    return {
        name: _pruned(value, names) if isinstance(value, dict) else value
        for name, value in fields.items()
        if name not in names
    }


def _finished(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the checks that no example waits for, without the examples that an attack could not run on."""
    rows = rows.filter(pl.col("not_run").is_null()) if "not_run" in rows.columns else rows
    return rows.filter(~waiting().any().over("check")) if "steps" in rows.columns else rows


def _shared(checks: Sequence[Tried]) -> list[list[bool]]:
    """The results of each check on the examples that all of them saw."""
    common = sorted(set.intersection(*(set(check.held) for check in checks)))
    return [[check.held[example] for example in common] for check in checks]


def _eps(tried: Sequence[Tried]) -> Verdict:
    verdicts = []
    for _, ladder in _groups(tried, lambda check: check.without("step_size")):
        checks = sorted(ladder, key=lambda check: check.eps)
        held = _shared(checks)
        if len({check.eps for check in checks}) == len(checks) > 1 and held[0]:
            rungs = [Rung(check.name, check.eps, one) for check, one in zip(checks, held, strict=True)]
            verdicts.append(growing(rungs, "ledger"))
    return _worst(verdicts, "eps", "no attack was run at two budgets on the same examples")


def _convergence(tried: Sequence[Tried]) -> Verdict:
    verdicts = []
    for _, group in _groups(tried, lambda check: f"{check.without(*EFFORT)} {check.eps}"):
        checks = sorted(group, key=lambda check: check.effort)[-2:]
        held = _shared(checks)
        if len(checks) == 2 and checks[1].effort >= HARDER * checks[0].effort and held[0]:
            names = checks[1].name, checks[0].name
            verdicts.append(beaten("convergence", Pair.of(*held), *names, "ledger"))
    return _worst(verdicts, "convergence", "no attack was run at one budget with twice the steps, restarts or queries")


def _black_box(tried: Sequence[Tried], rows: pl.DataFrame) -> Verdict:
    verdicts = list(_composed(rows))
    for _, group in _groups(tried, lambda check: f"{check.norm} {check.eps}"):
        white = [check for check in group if check.access == Access.GRADIENTS and check.thorough]
        for black in (check for check in group if check.access in BLACK_BOX and white):
            *under, last = _shared([*white, black])
            if last:
                held = [all(one) for one in zip(*under, strict=True)]
                name = white[0].name if len(white) == 1 else "every white-box check of this budget"
                verdicts.append(beaten("black-box", Pair.of(held, last), black.name, name, "ledger"))
    return _worst(verdicts, "black-box", "no black-box and iterated white-box attack were run at one budget")


def _composed(rows: pl.DataFrame) -> Iterator[Verdict]:
    """The same within composed attacks, whose rows say what each component did; those that did not run say nothing."""
    if rows.schema.get("steps") is None or rows["steps"].is_null().all():
        return
    finished = with_access(_finished(rows)).filter(pl.col("steps").is_not_null())
    for (check,), part in finished.group_by("check", maintain_order=True):
        pairs = []
        for steps in part["steps"].to_list():
            black = [step["broke"] for step in steps if _is_black(step)]
            white = [step["broke"] for step in steps if not _is_black(step)]
            if any(white) or None not in (*white, *black):
                pairs.append((not any(white), not any((*white, *black))))
        if pairs and any(map(_is_black, part["steps"][0].to_list())):
            first, second = (list(column) for column in zip(*pairs, strict=True))
            yield beaten("black-box", Pair.of(first, second), f"the black-box part of {check}", "the rest", "ledger")


def _is_black(step: Mapping[str, Any]) -> bool:
    """Whether a component asks for scores or decisions only."""
    return step["access"] in BLACK_BOX


def _groups(tried: Sequence[Tried], key: Any) -> Iterator[tuple[str, list[Tried]]]:
    for name, group in groupby(sorted(tried, key=key), key=key):
        yield name, list(group)


def _worst(verdicts: Sequence[Verdict], flag: str, otherwise: str) -> Verdict:
    """The worst of several verdicts on one flag, the one furthest from its limit first."""
    if not verdicts:
        return Verdict(flag=flag, level="not tested", finding=otherwise, evidence="ledger")
    order = ("fail", "warn", "pass")
    return min(verdicts, key=lambda verdict: (order.index(verdict.level), -(verdict.value or 0.0)))
