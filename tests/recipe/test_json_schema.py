"""The JSON Schema accepts what `parse` accepts, and refuses slips."""

from pathlib import Path

import pytest
import yaml

from holdfast.recipe import Recipe, load_recipes, plain
from holdfast.recipe.json_schema import file_schema
from holdfast.recipe.schema import FAMILIES

jsonschema = pytest.importorskip("jsonschema")
FILES = sorted([*Path("recipes").glob("*.yaml"), *Path("recipes/evidence").glob("*.yaml")])
SEARCHES = sorted(Path("recipes/search").glob("*.yaml"))


@pytest.fixture(scope="module")
def schema():
    schema = file_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def base(**more):
    return {"data": "digits", "model": "mlp", **more}


@pytest.mark.parametrize("file", [*FILES, *SEARCHES], ids=lambda file: file.name)
def test_accepts_the_recipes_that_come_along(schema, file):
    schema.validate(yaml.safe_load(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_accepts_resolved_recipes(schema, file):
    for recipe in load_recipes(file):
        schema.validate(plain(recipe, Recipe))


@pytest.mark.parametrize(
    "more",
    [
        {"checks": [{"fgsm": {"threat": {"linf": "8/255"}}}]},
        {"checks": [{"fgsm": {"linf": 0.1}}]},
        {"checks": [{"gaussian_noise": {"sigma": {"each": [0.1, 0.2]}}}]},
        {"checks": [{"fgsm": {"threat": {"each": [{"linf": 0.1}, {"l0": 3}]}}}]},
        {"checks": "clean"},
        {"checks": [{"art": {"attack": "A", "threat": {"l2": 0.5}, "options": {"max_iter": 20, "norm": "inf"}}}]},
        {"data": {"npz": "a.npz"}},
        {"data": {"source": {"npz": {"path": "a.npz"}}, "validation": 0.1}},
        {"train": {"objective": {"adversarial": {"pgd": {"linf": 0.1}}}}},
        {"train": {"selection": {"attack": None, "patience": 3}}},
        {"model": {"composite": {"standard": "a", "mixing": {"probability": {"transform": True}}, "fit": True}}},
        {"model": {"composite": {"standard": "a", "fit": {"keep": 0.9}}}},
        {"variants": {"a": None, "b": {"train": {"epochs": 3}}}, "seeds": [1, 2]},
        {"variants": {"a": {"parts": None}, "b": {"parts": {"level": "group", "leaves": {"train": {"epochs": 3}}}}}},
        {"variants": {"a": {"parts": "group"}}},
    ],
)
def test_accepts_every_way_to_write_a_choice(schema, more):
    schema.validate(base(**more))


@pytest.mark.parametrize(
    "more",
    [
        {"trian": {}},
        {"train": {"epochz": 3}},
        {"train": {"optimizer": {"sgd": {"lrr": 3}}}},
        {"train": {"optimizer": "sdg"}},
        {"train": {"epochs": "many"}},
        {"checks": [{"fgsm": {"threat": {"linf": 0.1, "l2": 1}}}]},
        {"checks": [{"art": {"attack": "A", "threat": {"l2": 0.5}, "options": [1, 2]}}]},
        {"train": {"clip": True}},
        {"seeds": []},
        {"seeds": ["a"]},
        {"variants": ["a"]},
        {"model": "mpl"},
    ],
)
def test_refuses_slips(schema, more):
    assert not schema.is_valid(base(**more))


def test_needs_data_and_model(schema):
    assert not schema.is_valid({"data": "digits"})
    assert not schema.is_valid({"model": "mlp"})


@pytest.mark.parametrize(("name"), sorted({name for family in FAMILIES.values() for name in family}))
def test_knows_every_name(name):
    assert f"'{name}'" in str(file_schema())
