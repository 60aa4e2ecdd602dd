"""Sweeps, and checks that are said in one line."""

import pytest

from holdfast.attacks import PGD
from holdfast.corruptions import Clean, GaussianNoise
from holdfast.corruptions.bar import Bar
from holdfast.errors import RecipeError
from holdfast.recipe import parse_recipes, read_checks
from holdfast.recipe.sweeps import before_sweeps
from holdfast.threat import Linf

BASE = "name: r\ndata: {source: digits, validation: 0.1}\nmodel: mlp\n"


def test_corruptions_of_the_selection_are_swept_too():
    swept = "[{bar: {kind: ripple, severity: {each: [1, 3]}}}]"
    said = f"train: {{selection: {{metric: corrupted_accuracy, corruptions: {swept}}}}}"
    (recipe,) = parse_recipes(BASE + said)
    assert recipe.train.selection.corruptions == tuple(Bar(kind="ripple", severity=one) for one in (1, 3))


def test_the_place_of_a_mistake_is_that_of_the_file():
    said = (
        "train:\n  selection:\n    corruptions:\n      - gaussian_noise: {each: [0.1, 0.2]}\n      - gaussian_noise: -1"
    )
    with pytest.raises(RecipeError, match=r"recipe:8: train\.selection\.corruptions\.1"):
        parse_recipes(BASE + said)


def test_other_paths_stay_as_they_are():
    origins = {("checks",): [0, 0, 1]}
    assert before_sweeps(("checks", "2", "sigma"), origins) == ("checks", "1", "sigma")
    assert before_sweeps(("train", "2"), origins) == ("train", "2")
    assert before_sweeps(("checks",), origins) == ("checks",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("clean", [Clean()]),
        ("gaussian_noise: 0.2", [GaussianNoise(0.2)]),
        ("[clean, {gaussian_noise: {each: [0.1, 0.2]}}]", [Clean(), GaussianNoise(0.1), GaussianNoise(0.2)]),
        ("{pgd: {threat: {linf: 8/255}, steps: 3}}", [PGD(threat=Linf(8 / 255), steps=3)]),
    ],
)
def test_checks_in_the_notation_of_a_recipe(text, expected):
    assert read_checks(text) == expected


def test_presets_keep_their_names():
    assert read_checks("quick")[0] == Clean()
    assert len(read_checks("quick")) > 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("quik", "--checks: unknown name 'quik'; .*Did you mean 'quick'"),
        ("{pgd: {stepz: 3}}", "--checks.0.pgd.stepz: unknown name 'stepz'"),
        ("{gaussian_noise: {each: []}}", r"--checks\.0\.gaussian_noise\.each: expected at least one value"),
        ("{pgd: [", "--checks: expected a preset or checks as a recipe has them; got '{pgd: "),
        ("", "--checks"),
    ],
)
def test_what_is_no_check_is_refused_in_one_line(text, says):
    with pytest.raises(RecipeError, match=says):
        read_checks(text, "--checks")
