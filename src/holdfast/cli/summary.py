"""What runs come to, as records and as a table for people."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli.screen import interval, percent, say, table

if TYPE_CHECKING:
    import polars as pl

    from holdfast.analysis.corruption import Corrupted
    from holdfast.runs import Run


def summary(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Accuracies and worst case of runs as plain records."""
    import polars as pl

    from holdfast.analysis.corruption import grade_of
    from holdfast.results import GRADED, accuracies, worst_case, yields

    frames = rows_of(runs)
    rows = pl.concat(frames)
    left_out = {
        frame["run"][0]: sorted(weights for weights, left in run.info().get("not_run", {}).items() if left)
        for run, frame in zip(runs, frames, strict=True)
    }
    columns = ["run", "weights", "check", "examples", "correct", "accuracy", "low", "high", "unsettled"]
    columns += ["abstained", "radius", "method", "params"]
    none = {"check": pl.lit("worst case"), "method": pl.lit(None, pl.String), "params": pl.lit(None, pl.String)}
    none |= {"abstained": pl.lit(0, pl.UInt32), "radius": pl.lit(None, pl.Float64)}
    worst = worst_case(rows).with_columns(**none).select(columns)
    waiting: dict[tuple[str, str, str], dict[str, int]] = {}
    for run, weights, check, step, count in (
        yields(rows).select("run", "weights", "check", "step", "waiting").iter_rows()
    ):
        if count:
            waiting.setdefault((run, weights, check), {})[step] = count
    records = pl.concat([accuracies(rows).select(columns), worst]).to_dicts()
    return [
        {
            **_bounded({name: value for name, value in r.items() if name != "params"}),
            "graded": grade_of(r["params"]) if r["method"] in GRADED else None,
            "waiting": waiting.get((r["run"], r["weights"], r["check"]), {}),
            "left_out": left_out[r["run"]],
        }
        for r in records
    ]


def _bounded(record: dict[str, Any]) -> dict[str, Any]:
    """An accuracy that a waiting part could lower is no accuracy: only what it is at most is said."""
    from holdfast.report.shares import share_of

    if not record["unsettled"]:
        return {**record, "at_most": None}
    share = share_of(record)
    return {**record, "accuracy": None, "at_most": record["accuracy"], "low": share.low, "high": share.high}


def rows_of(runs: Sequence[Run]) -> list[pl.DataFrame]:
    """The ledgers of runs; where two runs have the same name, each goes by its path."""
    import polars as pl

    frames = [run.ledger.read() for run in runs]
    names = [frame["run"][0] for frame in frames]
    if len(set(names)) == len(names):
        return frames
    return [frame.with_columns(run=pl.lit(str(run.path))) for run, frame in zip(runs, frames, strict=True)]


def show_summary(records: Sequence[dict[str, Any]]) -> None:
    """Print accuracies: a row per check, a column per run with its best weights, or per variant over its seeds.

    Corruptions by kind and severity have one row for their mean error.
    """
    groups: dict[str, list[str]] = {}
    for run in dict.fromkeys(record["run"] for record in records):
        groups.setdefault(run.rsplit("/seed-", 1)[0], []).append(run)
    cells = {(r["run"], r["weights"], r["check"]): r for r in records}
    labels = {run: min(r["weights"] for r in records if r["run"] == run) for run, _, _ in cells}
    graded = {r["check"] for r in records if r["graded"]}
    checks = list(dict.fromkeys(check for _, _, check in cells if check != "worst case" and check not in graded))
    lines: list[tuple[str, str, str | None]] = [(check, check, None) for check in [*checks, "worst case"]]
    if any(weights == "last" != labels[run] for run, weights, _ in cells):
        lines += [(f"{check}, last weights", check, "last") for check in (*checks[:1], "worst case")]
    rows = []
    for title, check, weights in lines:
        found = [[cells.get((run, weights or labels[run], check)) for run in runs] for runs in groups.values()]
        absent = [_absent(records, runs, weights) for runs in groups.values()]
        rows.append([title, *[_share([c for c in column if c]) or a for column, a in zip(found, absent, strict=True)]])
    errors = _errors([record for record in records if record["weights"] == labels[record["run"]]])
    for title in dict.fromkeys(one.title for of in errors.values() for one in of):
        ones = [[one for run in runs for one in errors.get(run, []) if one.title == title] for runs in groups.values()]
        rows.append([f"mean error, {title}", *map(_means, ones)])
    for check in dict.fromkeys(r["check"] for r in records if r["radius"] is not None):
        found = [[cells.get((run, labels[run], check)) for run in runs] for runs in groups.values()]
        rows.append([f"average radius, {check}", *[_radius([c for c in column if c]) for column in found]])
    seeds = max(len(runs) for runs in groups.values())
    spread = "95 % interval" if seeds == 1 else f"± standard deviation over {seeds} seeds"
    names = list(groups) if seeds > 1 else [runs[0] for runs in groups.values()]
    table([f"accuracy [{spread}]", *short_names(names)], rows)
    for record in records:
        if record["waiting"]:
            parts = ", ".join(f"{step} on {count} images" for step, count in record["waiting"].items())
            say(f"upper bound only: {record['check']} on {record['run']} ({record['weights']}) has not run {parts}")
    for check, (fewest, most) in _sizes(records).items():
        say(f"unfinished or uneven: '{check}' has {fewest} to {most} images; repeat the command that made it")


def _absent(records: Sequence[dict[str, Any]], runs: Sequence[str], weights: str | None) -> str:
    """What to say of weights without a result: not run, or not apart from the best ones."""
    others = [r for r in records if r["run"] in runs]
    ran = any(r["weights"] == weights or weights in r["left_out"] for r in others)
    return "-" if weights is None or ran else "same as best"


def show_left_out(runs: Sequence[Run]) -> None:
    """Print the checks of one piece that the budget left out; of composed ones the ledger knows."""
    for run in runs:
        for weights, left in run.info().get("not_run", {}).items():
            for what, count in left.items():
                if ": " not in what:
                    say(f"not run for lack of time: {what} on {count} images of {run.info().get('name')} ({weights})")


def _sizes(records: Sequence[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Checks that did not see as many images as others."""
    most = max(record["examples"] for record in records)
    seen: dict[str, int] = {}
    for record in records:
        if record["check"] != "worst case":
            seen[record["check"]] = min(record["examples"], seen.get(record["check"], most))
    return {check: (fewest, most) for check, fewest in seen.items() if fewest < most}


def _share(cells: Sequence[dict[str, Any]]) -> str:
    """One run's accuracy with its interval, or the mean over seeds with its standard deviation."""
    if not cells:
        return ""
    most = "at most " if any(cell["unsettled"] for cell in cells) else ""
    values = [cell["at_most"] if cell["accuracy"] is None else cell["accuracy"] for cell in cells]
    if len(cells) == 1:
        return f"{most}{percent(values[0])} {interval(cells[0]['low'], cells[0]['high'])}"
    shares = [100 * value for value in values]
    return f"{most}{statistics.fmean(shares):.1f} % ± {statistics.stdev(shares):.1f}"


def _errors(records: Sequence[dict[str, Any]]) -> dict[str, list[Corrupted]]:
    """The errors of each run by kind and severity, for each family and source."""
    from holdfast.analysis.corruption import Corrupted

    found: dict[tuple[str, str, str, str], dict[tuple[str, int], float]] = {}
    for r in records:
        if r["graded"]:
            of = found.setdefault((r["run"], r["weights"], r["method"], r["graded"]["source"]), {})
            of[r["graded"]["kind"], r["graded"]["severity"]] = 1 - r["accuracy"]
    errors: dict[str, list[Corrupted]] = {}
    for key, of in found.items():
        errors.setdefault(key[0], []).append(Corrupted(*key, of, 0, 0.0))
    return errors


def _means(found: Sequence[Corrupted]) -> str:
    """A mean corruption error, or its mean over seeds with the standard deviation; a kind missing, it is none."""
    if any(one.mean() is None for one in found):
        return "not complete"
    shares = [100 * value for value in (one.mean() for one in found) if value is not None]
    if len(shares) < 2:
        return f"{shares[0]:.1f} %" if shares else ""
    return f"{statistics.fmean(shares):.1f} % ± {statistics.stdev(shares):.1f}"


def _radius(cells: Sequence[dict[str, Any]]) -> str:
    """One run's average certified radius, or the mean over seeds with its standard deviation."""
    radii = [cell["radius"] for cell in cells]
    if len(radii) < 2:
        return f"{radii[0]:.4f}" if radii else ""
    return f"{statistics.fmean(radii):.4f} ± {statistics.stdev(radii):.4f}"


def short_names(names: Sequence[str]) -> list[str]:
    """Names without the part that all share, cut at a slash."""
    shared = 0
    while len(names) > 1 and all("/" in name[shared:] for name in names):
        cut = names[0].index("/", shared) + 1
        if any(name[:cut] != names[0][:cut] for name in names):
            break
        shared = cut
    return [name[shared:] for name in names]
