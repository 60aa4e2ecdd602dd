"""What runs come to, as records and as a table for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli.screen import say, table
from holdfast.cli.seeds import Seeds

if TYPE_CHECKING:
    import polars as pl

    from holdfast.analysis.corruption import Corrupted
    from holdfast.runs import Run


def summary(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Accuracies of all checks and the worst case of every threat, as plain records.

    `threat` is the norm and eps of a worst case and `checks` what counts in it; both are null for checks.
    `equal_weights` names weights that are the same as those of the record and so have no record of their own.
    """
    import polars as pl

    from holdfast.analysis.corruption import grade_of
    from holdfast.analysis.worst_case import worst_case
    from holdfast.results import GRADED, accuracies, yields
    from holdfast.verdicts import at_chance

    frames = rows_of(runs)
    rows = pl.concat(frames)
    dead = at_chance(rows)
    by_name = {frame["run"][0]: run for run, frame in zip(runs, frames, strict=True)}
    left_out = {name: run.info().get("not_run", {}) for name, run in by_name.items()}
    equal = {name: ["last"] if _last_is_best(run) else [] for name, run in by_name.items()}
    columns = ["run", "weights", "check", "examples", "correct", "accuracy", "low", "high", "unsettled"]
    columns += ["not_attacked", "reason"]
    columns += ["abstained", "radius", "method", "params"]
    none = {"method": pl.lit(None, pl.String), "params": pl.lit(None, pl.String)}
    none |= {"abstained": pl.lit(0, pl.UInt32), "radius": pl.lit(None, pl.Float64)}
    worst = worst_case(rows).with_columns(**none, threat=pl.struct("norm", "eps")).select(*columns, "threat", "checks")
    waiting: dict[tuple[str, str, str], dict[str, int]] = {}
    for run, weights, check, step, count in (
        yields(rows).select("run", "weights", "check", "step", "waiting").iter_rows()
    ):
        if count:
            waiting.setdefault((run, weights, check), {})[step] = count
    records = pl.concat([accuracies(rows).select(columns), worst], how="diagonal").to_dicts()
    seen = set(rows.select("run", "weights", "check").unique().iter_rows())
    absent = {
        name: {weights: [what for what in told if (name, weights, what.split(": ")[0]) not in seen]
               for weights, told in left.items()}
        for name, left in left_out.items()
    }  # fmt: skip
    return [
        {
            **_bounded(
                {name: value for name, value in r.items() if name != "params"},
                absent[r["run"]].get(r["weights"], []),
            ),
            "graded": grade_of(r["params"]) if r["method"] in GRADED else None,
            "waiting": waiting.get((r["run"], r["weights"], r["check"]), {}),
            "left_out": sorted(weights for weights, left in left_out[r["run"]].items() if left),
            "equal_weights": equal[r["run"]] if r["weights"] == "best" else [],
            "at_chance": (r["run"], r["weights"]) in dead,
        }
        for r in records
    ]


def _last_is_best(run: Run) -> bool:
    return run.weights("last").exists() and run.labels() == ["best"]


def _bounded(record: dict[str, Any], absent: Iterable[str]) -> dict[str, Any]:
    """An accuracy that a part or a check not run could lower is no accuracy, only an upper bound."""
    from holdfast.analysis.checks import Budget
    from holdfast.report.shares import share_of
    from holdfast.report.unfinished import counts_in

    threat = record["threat"]
    missing = sum(counts_in(what, Budget(threat["norm"], threat["eps"])) for what in absent) if threat else 0
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


def show_summary(records: Sequence[dict[str, Any]]) -> None:
    """Print accuracies: a row per check, a column per run with its best weights, or per variant over its seeds.

    Corruptions by kind and severity have one row for their mean error.
    """
    groups: dict[str, list[str]] = {}
    for run in dict.fromkeys(record["run"] for record in records):
        groups.setdefault(run.rsplit("/seed-", 1)[0], []).append(run)
    cells = {(r["run"], r["weights"], r["check"]): r for r in records}
    cells |= {(r["run"], same, r["check"]): r for r in records for same in r["equal_weights"]}
    labels = {run: min(r["weights"] for r in records if r["run"] == run) for run, _, _ in cells}
    columns = [(runs, Seeds(len(runs), max(map(len, groups.values())))) for runs in groups.values()]

    def of(runs: Sequence[str], check: str, weights: str | None = None) -> list[dict[str, Any]]:
        return [cell for run in runs if (cell := cells.get((run, weights or labels[run], check)))]

    checks = list(dict.fromkeys(r["check"] for r in records if not (r["graded"] or r["threat"])))
    worst = list(dict.fromkeys(r["check"] for r in records if r["threat"]))
    rows = [[check, *[seeds.share(of(runs, check)) or "-" for runs, seeds in columns]] for check in (*checks, *worst)]
    if any(r["weights"] == "last" != labels[r["run"]] for r in records):
        for check in (*checks[:1], *worst):
            rows.append([f"{check}, last weights", *[_last(of(runs, check, "last"), seeds) for runs, seeds in columns]])
    errors = _errors([record for record in records if record["weights"] == labels[record["run"]]])
    for title in dict.fromkeys(one.title for each in errors.values() for one in each):
        ones = [[one for run in runs for one in errors.get(run, []) if one.title == title] for runs, _ in columns]
        rows.append([f"mean error, {title}", *[_means(o, seeds) for o, (_, seeds) in zip(ones, columns, strict=True)]])
    for check in dict.fromkeys(r["check"] for r in records if r["radius"] is not None):
        radii = [seeds.mean([cell["radius"] for cell in of(runs, check)], "{:z.4f}".format) for runs, seeds in columns]
        rows.append([f"average radius, {check}", *radii])
    seeds = max(map(len, groups.values()))
    spread = "95 % interval" if seeds == 1 else f"± standard deviation over {seeds} seeds"
    names = list(groups) if seeds > 1 else [runs[0] for runs in groups.values()]
    dead = {r["run"] for r in records if r["at_chance"] and r["weights"] == labels[r["run"]]}
    marks = [_chance_mark(runs, dead) for runs in groups.values()]
    titles = [name + mark for name, mark in zip(short_names(names), marks, strict=True)]
    table([f"accuracy [{spread}]", *titles], rows)
    for record in records:
        if record["not_attacked"] and not record["threat"]:
            parts = f"{record['not_attacked']} of {record['examples']} images were not attacked ({record['reason']})"
            say(f"upper bound only: {record['check']} on {record['run']} ({record['weights']}): {parts}")
        if record["waiting"]:
            parts = ", ".join(f"{step} on {count} images" for step, count in record["waiting"].items())
            say(f"upper bound only: {record['check']} on {record['run']} ({record['weights']}) has not run {parts}")
    for line in _uneven([r for r in records if r["threat"] and r["weights"] == labels[r["run"]]]):
        say(line)
    for check, (fewest, most) in _sizes(records).items():
        say(f"unfinished or uneven: '{check}' has {fewest} to {most} images; repeat the command that made it")


def _uneven(records: Sequence[dict[str, Any]]) -> list[str]:
    """Worst cases that are over other checks for some runs than for the first: their numbers are no comparison."""
    lines = []
    for check in dict.fromkeys(record["check"] for record in records):
        first, *others = [record for record in records if record["check"] == check]
        names = [other["run"] for other in others if other["checks"] != first["checks"]]
        if names:
            lines.append(f"not comparable: '{check}' of {', '.join(names)} is over other checks than of {first['run']}")
    return lines


def _last(cells: Sequence[dict[str, Any]], seeds: Seeds) -> str:
    """The last weights of a variant; those that equal the best ones count with their value."""
    if len(cells) == seeds.column and all(cell["weights"] == "best" for cell in cells):
        return "same as best"
    return seeds.share(cells) or "-"


def other_images(runs: Sequence[Run]) -> str | None:
    """Which runs were tested on other images than the first, in words; None if none was."""
    from holdfast.report.same_images import Tested, different_images

    frames = rows_of(runs)
    tested = [
        Tested(frame["run"][0], run.info().get("data", {}).get("fingerprint"), frozenset(frame["example"]))
        for run, frame in zip(runs, frames, strict=True)
    ]
    return different_images(tested) or None


def _chance_mark(runs: Sequence[str], dead: set[str]) -> str:
    """What a column's title says of networks at chance level."""
    count = sum(run in dead for run in runs)
    if not count:
        return ""
    return " (at chance level)" if len(runs) == 1 else f" ({count} of {len(runs)} seeds at chance level)"


def show_at_chance(runs: Sequence[Run]) -> None:
    """Print a line for each network at chance level, with its remedy."""
    import polars as pl

    from holdfast.verdicts.chance import chance_warnings

    for line in chance_warnings(pl.concat(rows_of(runs))):
        say(line)


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
        if not record["threat"]:
            seen[record["check"]] = min(record["examples"], seen.get(record["check"], most))
    return {check: (fewest, most) for check, fewest in seen.items() if fewest < most}


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


def _means(found: Sequence[Corrupted], seeds: Seeds) -> str:
    """A mean corruption error, or its mean over seeds with the standard deviation; a kind missing, it is none."""
    if any(one.mean() is None for one in found):
        return "not complete"
    shares = [100 * value for value in (one.mean() for one in found) if value is not None]
    return seeds.mean(shares, "{:z.1f}".format, " %")


def short_names(names: Sequence[str]) -> list[str]:
    """Names without the part that all share, cut at a slash."""
    shared = 0
    while len(names) > 1 and all("/" in name[shared:] for name in names):
        cut = names[0].index("/", shared) + 1
        if any(name[:cut] != names[0][:cut] for name in names):
            break
        shared = cut
    return [name[shared:] for name in names]
