"""`holdfast show`: a recipe with every default written out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.code_permission import call_list
from holdfast.cli.options import Json, Set
from holdfast.cli.output import echo, echo_json, echo_lines


def command(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="Recipe, run directory or weights by holdfast.")],
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Print the fully resolved recipe of every run, and which code it would run."""
    from holdfast.recipe import plain
    from holdfast.recipe.load import load_recipes
    from holdfast.recipe.plain import to_yaml
    from holdfast.recipe.schema import Recipe
    from holdfast.runs.card import read_card
    from holdfast.runs.code import code_of, installed_methods, named_networks

    if recipe.is_dir() or recipe.suffix == ".safetensors":
        card = read_card(recipe)
        recipes, networks = [card.recipe], named_networks(card)
    else:
        recipes, networks = load_recipes(recipe, set_ or ()), []
    if code := code_of([*recipes, *networks]):
        echo(f"# Code that it would run, with --trust: {call_list(code)}", err=as_json)
    if packages := sorted(place for one in recipes for place in installed_methods(one)):
        echo(f"# Code of installed packages that it would run: {', '.join(dict.fromkeys(packages))}", err=as_json)
    if as_json:
        echo_json([plain(one, Recipe) for one in recipes], spelled=True)
    else:
        echo_lines("---\n".join(to_yaml(one, Recipe) for one in recipes))
