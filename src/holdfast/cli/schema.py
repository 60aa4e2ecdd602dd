"""`holdfast schema`: JSON Schema of recipe files, for editors."""

from __future__ import annotations

from holdfast.cli.output import echo_json


def command() -> None:
    """Print a JSON Schema; name it in an editor's YAML settings to get completion and checks while typing."""
    from holdfast.recipe.json_schema import file_schema

    echo_json(file_schema(), indent=2)
