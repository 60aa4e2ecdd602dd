"""Recipes: YAML files that say everything about a run, read strictly into the methods' own dataclasses."""

from holdfast.recipe.consistency import fitting_attack
from holdfast.recipe.json_schema import file_schema
from holdfast.recipe.load import load_recipes, parse_recipes
from holdfast.recipe.plain import as_yaml, describe, plain, to_yaml
from holdfast.recipe.schema import (
    DataRecipe,
    EvaluateRecipe,
    FabricRecipe,
    Recipe,
    Seconds,
    Selection,
    TrainRecipe,
)
from holdfast.recipe.stored import parse_stored
from holdfast.recipe.strict import parse
from holdfast.recipe.sweeps import read_checks

__all__ = [
    "DataRecipe",
    "EvaluateRecipe",
    "FabricRecipe",
    "Recipe",
    "Seconds",
    "Selection",
    "TrainRecipe",
    "as_yaml",
    "describe",
    "file_schema",
    "fitting_attack",
    "load_recipes",
    "parse",
    "parse_recipes",
    "parse_stored",
    "plain",
    "read_checks",
    "to_yaml",
]
