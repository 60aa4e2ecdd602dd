"""`holdfast show`: a recipe with every default written out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import Json, Set


def command(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="Recipe, run directory or weights by holdfast.")],
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Print the fully resolved recipe of every run."""
    from holdfast.recipe import Recipe, load_recipes, plain, to_yaml
    from holdfast.runs import read_card

    if recipe.is_dir() or recipe.suffix == ".safetensors":
        found = [read_card(recipe).recipe]
    else:
        found = load_recipes(recipe, set_ or ())
    if as_json:
        typer.echo(json.dumps([plain(one, Recipe) for one in found]))
    else:
        typer.echo("---\n".join(to_yaml(one, Recipe) for one in found), nl=False)
