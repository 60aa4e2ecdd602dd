"""`holdfast compare`: several runs side by side, with paired significance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.options import Json
from holdfast.errors import LedgerError


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories, or directories of runs.")],
    out: Annotated[Path | None, typer.Option("--out", help="Also write an HTML report to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Compare runs on the same examples; differences are against the first run, with exact McNemar tests."""
    from holdfast.cli import work
    from holdfast.cli.find import find_runs
    from holdfast.report import write_report
    from holdfast.runs import Run

    found = [Run(path) for path in find_runs(runs)]
    if len(found) < 2:
        raise LedgerError(f"{runs[0]}: expected two or more runs to compare; found {len(found)}")
    records, pairs = work.summary(found), _pairs(found)
    written = write_report([run.path for run in found], out) if out else None
    if as_json:
        typer.echo(json.dumps({"results": records, "paired": pairs, "report": str(written) if written else None}))
        return
    work.show_summary(records)
    _show(pairs)
    if written:
        work.say(f"report: {written}")


def _pairs(runs: list[Any]) -> list[dict[str, Any]]:
    """Every run against the first, check by check, each with its best weights."""
    import polars as pl

    from holdfast.results import compared

    frames = [_first_weights(run.ledger.read()) for run in runs]
    names = [frame["run"][0] for frame in frames]
    rows, pairs = pl.concat(frames), []
    for name in names[1:]:
        for check, pair in compared(rows, name, names[0]):
            pairs.append({"run": name, "against": names[0], "check": check, **vars(pair)})
    if not pairs:
        raise LedgerError("the runs have no check and example in common; nothing to compare")
    return pairs


def _first_weights(rows: Any) -> Any:
    import polars as pl

    return rows.filter(pl.col("weights") == min(rows["weights"]))


def _show(pairs: list[dict[str, Any]]) -> None:
    from holdfast.cli import work
    from holdfast.cli.screen import table

    names = work.short_names([pair["run"] for pair in pairs] + [pairs[0]["against"]])
    rows = [
        [f"{name}: {pair['check']}", f"{100 * pair['difference']:+.1f}", f"{pair['only_first']}",
         f"{pair['only_second']}", f"{pair['p_value']:.2g}"]
        for name, pair in zip(names, pairs, strict=False)
    ]  # fmt: skip
    table(["", "points", "only it right", f"only {names[-1]} right", "p"], rows, title=f"against {names[-1]}")
