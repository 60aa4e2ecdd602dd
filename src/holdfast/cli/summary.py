"""What runs come to, as records for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from holdfast.runs.directory import Run


def summary(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Accuracies of all checks and the worst case of every threat, as plain records.

    `threat` is the norm and eps of a worst case and `checks` what counts in it; both are null for checks.
    `equal_weights` names weights that are the same as those of the record and so have no record of their own.
    """
    import polars as pl

    from holdfast.results.corruption_errors import grade_of
    from holdfast.results.summaries import accuracies
    from holdfast.results.worst_case import worst_case
    from holdfast.trust.chance import at_chance

    frames = rows_of(runs)
    rows = pl.concat(frames)
    dead = at_chance(rows)
    by_name = {frame["run"][0]: run for run, frame in zip(runs, frames, strict=True)}
    left_out = {name: run.info().get("not_run", {}) for name, run in by_name.items()}
    equal = {name: ["last"] if _last_is_best(run) else [] for name, run in by_name.items()}
    columns = ["run", "weights", "check", "examples", "correct", "accuracy", "low", "high", "unsettled"]
    columns += ["not_attacked", "reason"]
    columns += ["abstained", "radius", "method", "params", "family"]
    none = {name: pl.lit(None, pl.String) for name in ("method", "params", "family")}
    none |= {"abstained": pl.lit(0, pl.UInt32), "radius": pl.lit(None, pl.Float64)}
    worst = worst_case(rows).with_columns(**none, threat=pl.struct("norm", "eps")).select(*columns, "threat", "checks")
    records = pl.concat([accuracies(rows).select(columns), worst], how="diagonal").to_dicts()
    waiting, absent = _waiting(rows), _absent(rows, left_out)
    return [
        {
            **_bounded(
                {name: value for name, value in r.items() if name not in ("params", "family")},
                absent[r["run"]].get(r["weights"], []),
                by_name[r["run"]].info().get("threats"),
            ),
            "graded": None if r["family"] is None else {**grade_of(r["params"]), "family": r["family"]},
            "waiting": waiting.get((r["run"], r["weights"], r["check"]), {}),
            "left_out": sorted(weights for weights, left in left_out[r["run"]].items() if left),
            "equal_weights": equal[r["run"]] if r["weights"] == "best" else [],
            "at_chance": (r["run"], r["weights"]) in dead,
        }
        for r in records
    ]


def _waiting(rows: pl.DataFrame) -> dict[tuple[str, str, str], dict[str, int]]:
    """How many examples wait for each component of a composed attack, by run, weights and check."""
    from holdfast.results.summaries import yields

    waiting: dict[tuple[str, str, str], dict[str, int]] = {}
    columns = ("run", "weights", "check", "step", "waiting")
    for run, weights, check, step, count in yields(rows).select(columns).iter_rows():
        if count:
            waiting.setdefault((run, weights, check), {})[step] = count
    return waiting


def _absent(rows: pl.DataFrame, left_out: Mapping[str, Mapping[str, Iterable[str]]]) -> dict[str, dict[str, list[str]]]:
    """What the budget left out of checks that have no row at all, by run and weights."""
    seen = set(rows.select("run", "weights", "check").unique().iter_rows())
    return {
        name: {
            weights: [what for what in parts if (name, weights, what.split(": ")[0]) not in seen]
            for weights, parts in left.items()
        }
        for name, left in left_out.items()
    }


def _last_is_best(run: Run) -> bool:
    return run.weights("last").exists() and run.labels() == ["best"]


def _bounded(record: dict[str, Any], absent: Iterable[str], threats: object) -> dict[str, Any]:
    """An accuracy that a part or a check not run could lower is no accuracy, only an upper bound."""
    from holdfast.report.shares import share_of
    from holdfast.report.unfinished import counts_in
    from holdfast.results.recorded_checks import Budget

    threat = record["threat"]
    missing = sum(counts_in(what, Budget(threat["norm"], threat["eps"]), threats) for what in absent) if threat else 0
    share = share_of(record, absent=missing)
    if not share.bound:
        return {**record, "at_most": None}
    return {**record, "accuracy": None, "at_most": record["accuracy"], "low": share.low, "high": share.high}


def rows_of(runs: Sequence[Run]) -> list[pl.DataFrame]:
    """The ledgers of runs; where two runs have the same name, each goes by its path."""
    import polars as pl

    frames = [run.ledger.read() for run in runs]
    names = [frame["run"][0] for frame in frames]
    if len(set(names)) == len(names):
        return frames
    return [frame.with_columns(run=pl.lit(str(run.path))) for run, frame in zip(runs, frames, strict=True)]


def other_images(runs: Sequence[Run]) -> str | None:
    """Which runs were tested on other images than the first, in words; None if none was."""
    from holdfast.report.same_images import Tested, different_images

    frames = rows_of(runs)
    tested = [
        Tested(frame["run"][0], run.info().get("data", {}).get("fingerprint"), frozenset(frame["example"]))
        for run, frame in zip(runs, frames, strict=True)
    ]
    return different_images(tested) or None


def components(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """What each component of the composed attacks of runs did, as plain records."""
    from holdfast.results.summaries import yields

    return [record for run in runs for record in yields(run.ledger.read()).to_dicts()]
