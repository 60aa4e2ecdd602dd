"""`holdfast analyse`: questions about one network, whose answers go to its directory and its report; a file each."""

from __future__ import annotations

from importlib import import_module

import typer

from holdfast.cli.analyse.question import register

QUESTIONS = (
    "features",
)  # fmt: skip

app = typer.Typer(help="Ask a question about a network; repeat the command to resume.", no_args_is_help=True)
for _question in QUESTIONS:
    app.command(_question)(import_module(f"holdfast.cli.analyse.{_question}").command)
register(app)
