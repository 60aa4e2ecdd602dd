"""The headline numbers as JSON, with the keys of RobustBench's model cards and a few of our own.

One record for each run and threat, as RobustBench has one card for each model and threat. Accuracies are texts in
percent with two digits, as there. What has not run, or not to its end, is null and named: no number looks complete
that is not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from holdfast.report.checks import Budget, Check
from holdfast.report.runs import RunData
from holdfast.report.shares import Share, share_of
from holdfast.report.unfinished import Gap, gaps
from holdfast.results import accuracies, worst_case, write_atomically

NORMS = {"linf": "Linf", "l2": "L2", "l1": "L1", "l0": "L0"}
PUBLISHED = {"version": "standard", "steps": 100, "targets": 9, "queries": 5000}
"""Fields with which AutoAttack is what RobustBench means by it."""


def write_headlines(runs: Sequence[RunData], out: Path) -> Path:
    """Write the records of all runs as a JSON list."""
    text = json.dumps([record for run in runs for record in headlines(run)], indent=2, ensure_ascii=False) + "\n"
    write_atomically(out, lambda path: path.write_bytes(text.encode("utf-8", "replace")))
    return out


def headlines(run: RunData) -> list[dict[str, Any]]:
    """A record for each threat that the run's main weights were attacked in; one without a threat if there is none."""
    threats: list[Budget | None] = list(
        dict.fromkeys(budget for check in run.main_checks if (budget := _threat(check)))
    )
    missing = [gap for gap in gaps(run) if gap.weights == run.weights[0]]
    return [_record(run, threat, missing) for threat in threats or [None]]


def _record(run: RunData, threat: Budget | None, missing: Sequence[Gap]) -> dict[str, Any]:
    found = {row["check"]: row for row in accuracies(run.main_rows).iter_rows(named=True)}
    attacks = [check for check in run.main_checks if threat is not None and _threat(check) == threat]
    clean = [check.name for check in run.main_checks if check.clean]
    names = [*clean, *(check.name for check in attacks)]
    left = [gap for gap in missing if gap.absent or gap.check in names]
    open_ = {gap.check for gap in left if not gap.absent}
    published = next((c.name for c in attacks if _is_published(c)), None)
    worst = None
    if attacks and not left:
        worst = next(worst_case(run.main_rows.filter(pl.col("check").is_in(names))).iter_rows(named=True), None)
    return {
        "link": None,
        "name": run.facts.get("name"),
        "authors": None,
        "additional_data": None,
        "number_forward_passes": None,
        "dataset": run.section("data").get("name"),
        "venue": None,
        "architecture": run.section("model").get("name"),
        "norm": None if threat is None else NORMS.get(threat.axis, threat.axis),
        "eps": None if threat is None else fraction(threat.size),
        "clean_acc": _complete(found, clean[0], open_) if clean else None,
        "reported": None,
        "autoattack_acc": _complete(found, published, open_) if published else None,
        "worst_case_acc": _percent(share_of(worst)) if worst else None,
        "attacks": [_attack(check, found[check.name], check.name in open_) for check in attacks],
        "unfinished": [{"what": gap.what, "examples": gap.examples} for gap in left],
        "examples": run.main_rows.filter(pl.col("check").is_in(names))["example"].n_unique(),
        "seeds": run.main_rows["seed"].drop_nulls().unique().sort().to_list(),
        "weights": run.weights[0],
        "weights_sha256": _sha256(run),
        "versions": dict(run.section("versions")),
    }


def _attack(check: Check, row: dict[str, Any], unfinished: bool) -> dict[str, Any]:
    share = share_of(row)
    return {
        "check": check.name,
        "method": check.method,
        "acc": None if unfinished else _percent(share),
        "at_most": _percent(share) if share.bound else None,
        "interval": [f"{100 * share.low:.2f}", f"{100 * share.high:.2f}"],
        "examples": row["examples"],
        "params": check.params,
    }


def _complete(found: dict[str, dict[str, Any]], check: str, unfinished: set[str]) -> str | None:
    return None if check in unfinished else _percent(share_of(found[check]))


def _percent(share: Share) -> str:
    return f"{100 * share.value:.2f}"


def _threat(check: Check) -> Budget | None:
    """Where an attack may search, also that inside another; None for what is no attack."""
    if check.nearest:
        return check.nearest
    return check.budget if "threat" in check.params else None


def _is_published(check: Check) -> bool:
    return check.method == "autoattack" and all(check.params.get(key) == value for key, value in PUBLISHED.items())


def _sha256(run: RunData) -> str | None:
    """The hash that `run.json` has of the main weights, else the digits that the ledger has."""
    said = run.section("weights").get(run.weights[0])
    known = said.get("sha256") if isinstance(said, dict) else None
    digits: list[str] = run.main_rows["weights_hash"].drop_nulls().head(1).to_list()
    return str(known) if known else next(iter(digits), None)


def fraction(eps: float) -> str:
    """A budget as it is usually written: 8/255, 0.5."""
    levels = round(eps * 255)
    return f"{levels}/255" if eps != round(eps, 3) and levels > 0 and abs(levels / 255 - eps) < 1e-9 else f"{eps:g}"
