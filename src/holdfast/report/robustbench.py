"""The headline numbers as JSON, with the keys of RobustBench's model cards and a few of our own.

One record for each run and threat, as RobustBench has one card for each model and threat. Accuracies are texts in
percent with two digits, as there. What has not run, or not to its end, is null and named: no number looks complete
that is not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from holdfast import files
from holdfast.report.runs import RunData
from holdfast.report.shares import Share, share_of
from holdfast.report.unfinished import Gap, counts_in, gaps
from holdfast.results.corruption_errors import corrupted
from holdfast.results.recorded_checks import Budget, Check, checks_of, fraction
from holdfast.results.summaries import accuracies
from holdfast.results.worst_case import threats, within, worst_case
from holdfast.traits import Kind
from holdfast.trust.chance import better_than_chance

NORMS = {"linf": "Linf", "l2": "L2", "l1": "L1", "l0": "L0"}
PUBLISHED = {"version": "standard", "steps": 100, "targets": 9, "queries": 5000}
"""Fields with which AutoAttack is what RobustBench means by it."""


def write_headlines(runs: Sequence[RunData], out: Path) -> Path:
    """Write the records of all runs as a JSON list."""
    text = json.dumps([record for run in runs for record in headlines(run)], indent=2, ensure_ascii=False) + "\n"
    with files.replacing(out) as file:
        file.write(text.encode("utf-8", "replace"))
    return out


def headlines(run: RunData) -> list[dict[str, Any]]:
    """A record for each threat that the run's main weights were attacked in; one without a threat if there is none."""
    missing = [gap for gap in gaps(run) if gap.weights == run.weights[0]]
    return [_record(run, threat, missing) for threat in threats(run.main_rows) or [None]]


def _record(run: RunData, threat: Budget | None, missing: Sequence[Gap]) -> dict[str, Any]:
    rows = run.main_rows.filter(pl.col("kind") == Kind.CLEAN) if threat is None else within(run.main_rows, threat)
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
        **_accuracies(run, threat, rows, missing),
        "examples": rows["example"].n_unique(),
        "seeds": run.main_rows["seed"].drop_nulls().unique().sort().to_list(),
        "weights": run.weights[0],
        "weights_sha256": _sha256(run),
        "versions": dict(run.section("versions")),
    }


def _accuracies(run: RunData, threat: Budget | None, rows: pl.DataFrame, missing: Sequence[Gap]) -> dict[str, Any]:
    """All accuracies of a threat, and what they lack."""
    checks = checks_of(rows)
    rows_by_check = {row["check"]: row for row in accuracies(rows).iter_rows(named=True)}
    unfinished = _unfinished(run, threat, rows_by_check, missing)
    waiting = {gap.check for gap in unfinished if not gap.absent}
    attacks = [check for check in checks if not check.clean]
    clean = next((check.name for check in checks if check.clean), None)
    published = next((check.name for check in attacks if check.threat == threat and _is_published(check)), None)
    worst = None if threat is None or unfinished else next(worst_case(rows, [threat]).iter_rows(named=True), None)
    return {
        "clean_acc": _complete(rows_by_check, clean, waiting) if clean else None,
        "at_chance": {"fail": True, "pass": False}.get(better_than_chance(run.main_rows).level),
        "reported": None,
        "autoattack_acc": _complete(rows_by_check, published, waiting) if published else None,
        "worst_case_acc": _percent(share_of(worst)) if worst else None,
        "attacks": [_attack(check, rows_by_check[check.name], check.name in waiting) for check in attacks],
        "noise": _noise(run, missing),
        "corruptions": _corruptions(run),
        "unfinished": [{"what": gap.what, "examples": gap.examples} for gap in unfinished],
    }


def _unfinished(run: RunData, threat: Budget | None, checks: Collection[str], missing: Sequence[Gap]) -> list[Gap]:
    """The gaps of checks that count in a threat, also of those without a row."""
    recorded = run.facts.get("threats")
    return [
        gap
        for gap in missing
        if gap.check in checks or (threat and gap.absent and counts_in(gap.check, threat, recorded))
    ]


def _noise(run: RunData, missing: Sequence[Gap]) -> list[dict[str, Any]]:
    """Checks that change images at random, each with its own number: no threat's worst case has them."""
    rows_by_check = {row["check"]: row for row in accuracies(run.main_rows).iter_rows(named=True)}
    checks = [check for check in run.main_checks if not (check.clean or check.attack or check.certificate)]
    open_ = {gap.check for gap in missing}
    return [_attack(check, rows_by_check[check.name], check.name in open_) for check in checks]


def _corruptions(run: RunData) -> list[dict[str, Any]]:
    """The mean error under each family of corruptions by kind and severity; null where a kind is missing."""
    families = [one for one in corrupted(run.graded) if one.weights == run.weights[0]]
    means = [(one.title, one.mean(), one.examples) for one in families]
    return [
        {"family": title, "mean_error": None if mean is None else f"{100 * mean:.2f}", "examples": examples}
        for title, mean, examples in means
    ]


def _attack(check: Check, row: dict[str, Any], unfinished: bool) -> dict[str, Any]:
    share = share_of(row)
    return {
        "check": check.name,
        "method": check.method,
        "acc": None if unfinished else _percent(share),
        "at_most": _percent(share) if share.bound else None,
        "interval": [f"{100 * share.low:z.2f}", f"{100 * share.high:z.2f}"],
        "examples": row["examples"],
        "params": check.params,
    }


def _complete(rows_by_check: dict[str, dict[str, Any]], check: str, unfinished: set[str]) -> str | None:
    return None if check in unfinished else _percent(share_of(rows_by_check[check]))


def _percent(share: Share) -> str:
    return f"{100 * share.value:z.2f}"


def _is_published(check: Check) -> bool:
    return check.method == "autoattack" and all(check.params.get(key) == value for key, value in PUBLISHED.items())


def _sha256(run: RunData) -> str | None:
    """The hash that `run.json` has of the main weights or, failing that, the digits in the ledger."""
    entry = run.section("weights").get(run.weights[0])
    recorded = entry.get("sha256") if isinstance(entry, dict) else None
    digits: list[str] = run.main_rows["weights_hash"].drop_nulls().head(1).to_list()
    return str(recorded) if recorded else next(iter(digits), None)
