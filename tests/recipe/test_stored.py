"""Recipes of older runs keep the meaning they had."""

import pytest

from holdfast.corruptions import Chain, DownUp
from holdfast.ensembles import AdaptiveCompositeOfRuns
from holdfast.errors import RecipeError
from holdfast.objectives import CleanAndNoisy
from holdfast.recipe import parse_recipes, parse_stored
from holdfast.recipe.schema import FAMILIES
from holdfast.recipe.stored import with_former_values
from holdfast.runs import Run
from tests.tampering import put

OLD = {
    "name": "old",
    "data": {"source": "digits"},
    "model": {"cnn": {}},
    "train": {"objective": {"clean_and_noisy": {"sigma": 0.2, "weight": 1.0}}},
    "checks": ["clean", {"chain": {"of": [{"down_up": {"factor": 3.0}}, {"gaussian_noise": {"sigma": 0.1}}]}}],
}


def stored(content):
    return parse_stored(content, where=".".join)


def test_methods_without_a_field_of_today_mean_what_they_did_then():
    recipe = stored(OLD)
    assert recipe.train.objective == CleanAndNoisy(sigma=0.2, joint=False)
    assert isinstance(recipe.checks[1], Chain)
    assert recipe.checks[1].of[0] == DownUp(antialias=True)


def test_fields_that_are_written_out_count():
    assert with_former_values({"down_up": {"antialias": False}}) == {"down_up": {"antialias": False}}
    assert with_former_values({"down_up": {}, "fog": [1]}) == {"down_up": {"antialias": True}, "fog": [1]}


def test_former_values_of_a_group_count_where_it_is_stored():
    former = {"correction": 0, "sharpen": False}
    for transform, expected in (
        ({"shift": 2}, {"shift": 2, **former}),
        ({**former, "sharpen": True},) * 2,
        (None, None),
    ):
        assert with_former_values({"probability": {"transform": transform}}) == {"probability": {"transform": expected}}
    assert with_former_values({"probability": {}}) == {"probability": {}}


def test_former_values_are_those_of_fields_and_not_their_defaults():
    former = {name for family in FAMILIES.values() for name, kind in family.items() if hasattr(kind, "former")}
    assert former == {"adaptive_composite", "clean_and_noisy", "down_up", "probability"}
    assert AdaptiveCompositeOfRuns(standard="a", robust="b").maps not in AdaptiveCompositeOfRuns.former.values()
    for kind in (CleanAndNoisy, DownUp):
        assert all(getattr(kind(), name) != value for name, value in kind.former.items())


def test_a_run_of_the_old_meaning_is_not_continued_with_the_new_one(tmp_path):
    (new,) = parse_recipes("name: old\ndata: digits\nmodel: cnn\ntrain: {objective: {clean_and_noisy: {sigma: 0.2}}}")
    run = Run(tmp_path)
    run.claim(new)
    text = (tmp_path / "recipe.yaml").read_text()
    put(tmp_path / "recipe.yaml", text.replace("      joint: true\n", ""))
    (tmp_path / "state.pt").write_bytes(b"")
    with pytest.raises(RecipeError, match=r"another recipe \(differs in train\.objective\.clean_and_noisy\.joint\)"):
        run.claim(new)
