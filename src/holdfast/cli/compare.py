"""`holdfast compare`: several runs side by side, with paired significance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import Json
from holdfast.cli.output import echo_json
from holdfast.cli.screen import say
from holdfast.cli.sections import show_overview
from holdfast.cli.summary import other_images, summary
from holdfast.errors import LedgerError

if TYPE_CHECKING:
    from holdfast.report.compare import Comparison


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories, or directories of runs.")],
    out: Annotated[Path | None, typer.Option("--out", help="Also write an HTML report to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Compare runs on the same examples; differences are against the first run, with exact McNemar tests."""
    from holdfast.report import write_report
    from holdfast.report.compare import comparison
    from holdfast.report.find import find_runs
    from holdfast.report.runs import read_runs

    directories = find_runs(runs)
    if len(directories) < 2:
        twice = ", named twice" if len(runs) > 1 else ""
        raise LedgerError(f"{runs[0]}: expected two or more runs to compare; got {len(directories)}{twice}")
    first, *others = data = read_runs(directories)
    comparisons = [comparison(first, other) for other in others]
    if all(one.problem for one in comparisons):
        raise LedgerError(f"compare: {comparisons[0].problem}")
    written = write_report(directories, out) if out else None
    if as_json:
        from holdfast.runs.directory import Run

        compared = [Run(path) for path in directories]
        paired = [record for one in comparisons for record in _records(one)]
        output = {"results": summary(compared), "paired": paired, "other_images": other_images(compared)}
        echo_json({**output, "report": str(written) if written else None})
        return
    show_overview(data, "comparison")
    if written:
        say(f"report: {written}")


def _records(one: Comparison) -> list[dict[str, Any]]:
    """A record per check; differences are those of the second run against the first."""
    if one.problem:
        return [{"run": one.second, "against": one.first, "problem": one.problem}]
    unknown = [
        {"run": one.second, "against": one.first, "check": check, "difference": None, "unfinished": what}
        for check, what in one.unknown
    ]
    return unknown + [
        {
            "run": one.second,
            "against": one.first,
            "check": check,
            "difference": 0.0 - pair.difference,  # of no difference 0, not -0
            "only_run": pair.only_second,
            "only_against": pair.only_first,
            "examples": pair.examples,
            "p_value": pair.p_value,
            "p_holm": adjusted,
            "at_chance": list(one.at_chance),
        }
        for (check, pair), adjusted in zip(one.pairs, one.adjusted, strict=True)
    ]
