"""What one attack or certifier did to one network, as records for machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import LedgerError
from holdfast.show.numbers import short

if TYPE_CHECKING:
    import polars as pl

    from holdfast.report.shares import Share
    from holdfast.report.unfinished import Gap

CLEAN = "clean"


def attack_record(run: Path, weights: str, attack: str) -> dict[str, Any]:
    """Accuracies, successes and cost of an attack, from the ledger of a run.

    Args:
        run: its directory.
        weights: which of its weights.
        attack: as the ledger names it.
    """
    import polars as pl

    from holdfast.report.runs import read_run
    from holdfast.report.shares import share_of
    from holdfast.report.unfinished import gaps
    from holdfast.results.summaries import accuracies, yields
    from holdfast.trust.chance import chance_warnings

    data = read_run(run)
    rows = data.rows.filter((pl.col("weights") == weights) & pl.col("check").is_in([CLEAN, attack]))
    shares = {row["check"]: share_of(row) for row in accuracies(rows).iter_rows(named=True)}
    mine, clean = (rows.filter(pl.col("check") == check) for check in (attack, CLEAN))
    left = [gap for gap in gaps(data) if gap.weights == weights and gap.check in (CLEAN, attack)]
    open_ = {gap.check for gap in left}
    return {
        "run": str(run),
        "weights": weights,
        "attack": attack,
        "clean": _bounded(shares[CLEAN], whole=CLEAN not in open_) if CLEAN in shares else None,
        "attacked": _bounded(shares[attack], whole=attack not in open_) if attack in shares else None,
        "at_chance": bool(chance_warnings(rows)),
        **_successes(mine, clean.filter(~pl.col("correct"))["example"]),
        "yield": yields(mine).drop("run", "weights", "check").to_dicts(),
        "not_run": _not_run(left),
    }


def successes_in_words(record: dict[str, Any]) -> str:
    """How many images an attack broke, how far they had to be changed, and what it cost."""
    text, cost = f"{record['broken']} images broken", f"{record['queries']} queries, {record['seconds']:.1f} s"
    if (distance := record["distance"]) is None:
        return f"{text}; {cost}"
    far = f"mean {short(distance['mean'])}, median {short(distance['median'])}"
    return f"{text}; {distance['norm']} distance {far}; {cost}"


def certificate_record(run: Path, weights: str, certificate: str, radii: Sequence[float] | None) -> dict[str, Any]:
    """What a certifier proved, from the ledger of a run.

    Args:
        run: its directory.
        weights: which of its weights.
        certificate: as the ledger names it.
        radii: of the curve; round ones if there are none.
    """
    import polars as pl

    from holdfast.report.proofs import proof
    from holdfast.report.runs import read_run
    from holdfast.report.unfinished import gaps
    from holdfast.results.certified_radii import contradictions, round_radii
    from holdfast.results.recorded_checks import checks_of
    from holdfast.results.summaries import accuracies
    from holdfast.trust.chance import chance_warnings

    data = read_run(run)
    rows = data.rows.filter(pl.col("weights") == weights)
    mine = rows.filter(pl.col("check") == certificate)
    if mine.is_empty():
        raise LedgerError(f"{run}: nothing was certified within the budget; allow more time")
    one = proof(0, weights, checks_of(mine)[0], mine)
    summary, shown = one.summary, round_radii(one.summary["largest"]) if radii is None else radii
    clean = accuracies(rows.filter(pl.col("check") == CLEAN)).select("accuracy", "low", "high").to_dicts()
    refuted = contradictions(rows).filter(pl.col("check") == certificate)
    return {
        "run": str(run),
        "weights": weights,
        "certificate": certificate,
        "norm": one.norm,
        "smoothed": one.smoothed,
        "examples": one.examples,
        "network": clean[0] if clean else None,
        "at_chance": bool(chance_warnings(rows)),
        "certified": _ends(one.share(0.0)),
        "abstained": summary["abstained"],
        "average_radius": {"mean": summary["average"], "low": summary["low"], "high": summary["high"]},
        "largest_radius": summary["largest"],
        "below_8_bit": one.fine,
        "curve": [{"radius": float(radius), **_ends(one.share(radius))} for radius in sorted(shown)],
        "samples": summary["queries"],
        "seconds": summary["seconds"],
        "refuted": refuted.drop("run", "weights", "check").to_dicts(),
        "not_run": _not_run(gap for gap in gaps(data) if gap.weights == weights and gap.check in (CLEAN, certificate)),
    }


def _ends(share: Share) -> dict[str, float]:
    return {"accuracy": share.value, "low": share.low, "high": share.high}


def _bounded(share: Share, *, whole: bool) -> dict[str, Any]:
    """An accuracy with its interval; null, with what is known of it, where the check is unfinished."""
    bound = {"at_most": share.value} if share.bound else {}
    return {**_ends(share), **({} if whole else {"accuracy": None}), **bound}


def _not_run(left: Iterable[Gap]) -> list[dict[str, Any]]:
    return [{"what": gap.what, "examples": gap.examples} for gap in left]


def _successes(rows: pl.DataFrame, wrong: pl.Series) -> dict[str, Any]:
    """Counts and sums; successes are examples that only the attack made wrong."""
    import polars as pl

    lost = rows.filter(~pl.col("correct") & (pl.col("by").is_null() | (pl.col("by") != CLEAN)))
    broken = lost.filter(~pl.col("example").is_in(wrong.implode()))
    distance = None
    if len(broken):
        far = broken["distance"]
        distance = {"norm": broken["norm"][0], "mean": far.mean(), "median": far.median()}
    return {
        "examples": len(rows),
        "broken": len(broken),
        "distance": distance,
        "queries": int(rows["queries"].sum()),
        "seconds": float(rows["seconds"].sum()),
    }
