"""Claims of run directories."""

import pytest

from holdfast.conduct import claim_jobs
from holdfast.recipe import load_recipes
from holdfast.report.find import positions


@pytest.fixture
def claimed(tmp_path):
    """Claims variants of a recipe, and gives the variants by position."""
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text(
        "name: tiny\ndata: digits\nmodel: {mlp: {hidden: [8]}}\ntrain: {epochs: 1}\n"
        "variants: {standard: {}, at: {}, extra: {}}\n"
    )

    def claim(*only, fresh=False):
        claim_jobs(
            load_recipes(recipe, only=only),
            tmp_path / "runs",
            lambda run: run.path.mkdir(parents=True, exist_ok=True),
            fresh=fresh,
        )
        by_position = {position: run.parent.name for run, position in positions(tmp_path / "runs/tiny").items()}
        return [by_position[position] for position in sorted(by_position)]

    return claim


def test_a_claim_records_the_order_of_the_recipe(claimed):
    assert claimed() == ["standard", "at", "extra"]


def test_some_runs_of_a_recipe_keep_their_positions_also_when_they_start_over(claimed):
    claimed()
    assert claimed("extra", fresh=True) == ["standard", "at", "extra"]


def test_runs_that_are_claimed_later_come_after_the_others_until_all_are(claimed):
    assert claimed("extra") == ["extra"]
    assert claimed("at") == ["extra", "at"]
    assert claimed() == ["standard", "at", "extra"]
