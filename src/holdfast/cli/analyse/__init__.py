"""`holdfast analyse`: questions about networks, whose answers go to their directories and reports."""

from __future__ import annotations

import typer

from holdfast.cli.analyse.question import register

app = typer.Typer(help="Ask a question about networks; repeat the command to resume.", no_args_is_help=True)
register(app)
