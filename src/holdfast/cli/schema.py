"""`holdfast schema`: JSON Schema of recipe files, for editors."""

from __future__ import annotations

import json

import typer


def command() -> None:
    """Print a JSON Schema; name it in an editor's YAML settings to get completion and checks while typing."""
    from holdfast.recipe import file_schema

    typer.echo(json.dumps(file_schema(), indent=2))
