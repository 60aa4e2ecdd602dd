"""Matrices of transfer as files."""

from pathlib import Path

import pytest

from holdfast.attacks.transfer_loop import MI
from holdfast.recipe import load_recipes
from holdfast.recipe.matrix import Matrix, load_matrix
from holdfast.recipe.schema import DataRecipe


@pytest.mark.parametrize("file", sorted(Path("recipes/matrices").glob("*.yaml")), ids=lambda file: file.name)
def test_matrices_name_networks_of_recipes(file):
    made = {
        f"runs/{run.name.replace(f'/seed-{run.seed}', '/seed-{seed}')}"
        for recipe in (*Path("recipes").glob("*.yaml"), *Path("recipes/evidence").glob("*.yaml"))
        for run in load_recipes(recipe)
    }
    matrix = load_matrix(file)
    assert {path.replace("seed-0", "seed-{seed}") for path in (*matrix.sources, *matrix.targets)} <= made


def test_images_are_those_of_the_first_source_unless_others_are_stated():
    own = DataRecipe(source="digits", test_subset=50)
    of = {"name": "m", "sources": ("a",), "attacks": (MI,)}
    assert Matrix(**of).images(own) == own
    assert Matrix(**of, test_first=5).images(own) == DataRecipe(source="digits", test_first=5)
    assert Matrix(**of, test_subset=5).images(own) == DataRecipe(source="digits", test_subset=5)
    other = DataRecipe(source="mnist")
    assert Matrix(**of, data=other).images(own) == other
