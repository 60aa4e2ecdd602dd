"""`holdfast report`: the HTML page of one or more runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import Json
from holdfast.cli.output import echo, echo_json
from holdfast.cli.sections import show_sections
from holdfast.errors import LedgerError


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories, or directories of runs.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="File to write; needed for several directories (default: report.html in the directory)."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
    headline: Annotated[
        Path | None, typer.Option("--headline", help="Also write the main numbers as JSON, with RobustBench's keys.")
    ] = None,
    show: Annotated[
        str | None, typer.Option("--show", help="Print these sections instead, such as accuracy,distances or all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML file from the results of runs, or print sections of it."""
    from holdfast.report import write_report
    from holdfast.report.find import failed_runs, find_runs
    from holdfast.report.robustbench import write_headlines
    from holdfast.report.runs import read_runs

    directories = find_runs(runs)
    if show is not None:
        show_sections(show, read_runs(directories), as_json=as_json)
        return
    if out is None and len(runs) > 1:
        raise LedgerError("report: expected --out FILE beside several directories; got none")
    written = write_report(directories, out or runs[0] / "report.html", title=title, failed=failed_runs(runs))
    numbers = None if headline is None else write_headlines(read_runs(directories), headline)
    if as_json:
        record = {"report": str(written), "runs": list(map(str, directories))}
        echo_json(record if numbers is None else {**record, "headline": str(numbers)})
        return
    echo(f"report: {written}")
    if numbers is not None:
        echo(f"headline: {numbers}")
