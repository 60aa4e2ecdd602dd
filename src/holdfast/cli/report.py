"""`holdfast report`: the HTML page of one or more runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import Json


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories, or directories of runs.")],
    out: Annotated[Path | None, typer.Option("--out", help="File to write; else report.html in the directory.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML file from the results of runs."""
    from holdfast.cli.find import find_runs
    from holdfast.report import write_report

    found = find_runs(runs)
    written = write_report(found, out or runs[0] / "report.html", title=title)
    typer.echo(json.dumps({"report": str(written), "runs": list(map(str, found))}) if as_json else f"report: {written}")
