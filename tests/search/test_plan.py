"""Recipes with ranges: found wherever they stand, filled in, and refused in one line with its number."""

from pathlib import Path

import pytest

from holdfast.errors import RecipeError
from holdfast.recipe import parse_recipes
from holdfast.search import Choice, Goal, Log, Pruning, Uniform, Whole, load_plan, parse_plan
from holdfast.search.findings import TrialRecord, best_recipe
from tests.search.tiny import TEXT, plan

EVERYWHERE = """
name: all
data: {source: digits, validation: 0.2, augment: [horizontal_flip, {random_crop: {search: int, low: 1, high: 3}}]}
model: {cnn: {width: {search: choice, values: [0.5, 1]}}}
train:
  epochs: {search: int, low: 2, high: 6, step: 2}
  objective: {adversarial: {pgd: {threat: {linf: {search: uniform, low: 1/255, high: 8/255}}, steps: 2}}}
  optimizer:
    search: choice
    values:
      - {sgd: {lr: 0.1}}
      - {adam: {lr: 0.001}}
checks: {gaussian_noise: {sigma: {each: [0.1, 0.2]}}}
"""


def test_ranges_are_found_wherever_they_stand():
    assert parse_plan(EVERYWHERE).ranges == {
        "data.augment.1.random_crop": Whole(low=1, high=3),
        "model.cnn.width": Choice(values=(0.5, 1)),
        "train.epochs": Whole(low=2, high=6, step=2),
        "train.objective.adversarial.pgd.threat.linf": Uniform(low=1 / 255, high=8 / 255),
        "train.optimizer": Choice(values=({"sgd": {"lr": 0.1}}, {"adam": {"lr": 0.001}})),
    }


def test_a_filled_in_recipe_is_the_one_that_the_file_would_say():
    drawn = {
        "data.augment.1.random_crop": 2,
        "model.cnn.width": "1",
        "train.epochs": 4,
        "train.objective.adversarial.pgd.threat.linf": 0.01,
        "train.optimizer": '{"adam": {"lr": 0.001}}',
    }
    said = """
name: all/trials
data: {source: digits, validation: 0.2, augment: [horizontal_flip, {random_crop: 2}]}
model: {cnn: {width: 1}}
train:
  epochs: 4
  objective: {adversarial: {pgd: {threat: {linf: 0.01}, steps: 2}}}
  optimizer: {adam: {lr: 0.001}}
checks: {gaussian_noise: {sigma: {each: [0.1, 0.2]}}}
"""
    (expected,) = parse_recipes(said)
    filled = parse_plan(EVERYWHERE).recipe(drawn, "all/trials/seed-0")
    assert filled == expected
    assert parse_plan(EVERYWHERE).trial(drawn, 7).name == "all/trials/0007"


def test_the_best_recipe_is_a_file_that_run_accepts_and_says_where_it_comes_from():
    made = plan()
    drawn = {"train.optimizer.sgd.lr": 0.0625, "train.optimizer.sgd.momentum": 0.5}
    text = best_recipe(made, TrialRecord(3, "complete", drawn, (0.875,)), "tiny-best")
    (read,) = parse_recipes(text)
    assert (read.name, read.train.optimizer.lr, read.train.optimizer.momentum) == ("tiny-best/seed-0", 0.0625, 0.5)
    assert text.startswith("# Trial 3 of the search tiny: validation accuracy 0.875.")
    assert "#   train.optimizer.sgd.lr: 0.0625\n" in text


def test_settings_may_be_short_or_long():
    short = plan("search.pruner=hyperband", "search.objective=loss").settings
    assert short.objective == (Goal(score="loss"),)
    assert (short.pruning, short.objective[0].maximize) == (Pruning(method="hyperband"), False)
    several = plan("search.objective=[accuracy, loss]").settings
    assert [goal.maximize for goal in several.objective] == [True, False]
    assert several.pruning.method == "none"
    assert plan("search.pruner.warmup=3").settings.pruning == Pruning(warmup=3)


def test_checks_of_an_objective_may_be_swept():
    goal = plan(
        "search.objective={checks: [{gaussian_noise: {sigma: {each: [0.1, 0.2]}}}], over: mean}"
    ).settings.objective[0]
    assert [check.sigma for check in goal.checks] == [0.1, 0.2]
    assert goal.label == "accuracy of mean of 2 checks (validation)"


def test_an_override_fixes_a_range_or_makes_one():
    assert list(plan("train.optimizer.sgd.lr=0.1").ranges) == ["train.optimizer.sgd.momentum"]
    made = plan("train.batch_size={search: int, low: 4, high: 8}")
    assert made.ranges["train.batch_size"] == Whole(low=4, high=8)
    assert made.ranges["train.optimizer.sgd.lr"] == Log(low=0.01, high=1)


def line(text, *overrides):
    with pytest.raises(RecipeError) as error:
        parse_plan(text, overrides, file=Path("r.yaml"))
    assert "\n" not in str(error.value)
    return str(error.value)


HEAD = "data: {source: digits, validation: 0.2}\nmodel: mlp\n"
RANGE = "train: {warmup: {search: uniform, low: 0, high: 2}}\n"


def warmup(fields):
    """A recipe with this range in its fourth line."""
    return f"{HEAD}train:\n  warmup: {{search: {fields}}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (warmup("uniform, low: 2, high: 1"), "r.yaml:4: train.warmup: low must be below high, got 2 and 1"),
        (warmup("log, low: 0, high: 1"), "r.yaml:4: train.warmup: low must be positive in a log range, got 0"),
        (warmup("uniform, low: 0"), "r.yaml:4: train.warmup.high: expected a value; got nothing"),
        (
            warmup("uniform, lwo: 0, high: 1"),
            "r.yaml:4: train.warmup.lwo: unknown name 'lwo'; known: high, low, step. Did you mean 'low'?",
        ),
        (
            warmup("uniformly"),
            "r.yaml:4: train.warmup.search: unknown name 'uniformly'; known: choice, int, log, uniform.",
        ),
        (warmup("[1]"), "r.yaml:4: train.warmup.search: unknown name '[1]'; known"),
        (warmup("uniform, low: -1, high: 1"), "r.yaml:3: train: warmup must be at least 0, got -1"),
        (
            HEAD + "train:\n  batch_size: {search: uniform, low: 1, high: 2}\n",
            "r.yaml:4: train.batch_size: expected a valid integer; got 2.0",
        ),
        (HEAD + "model_: {search: choice, values: [1, 2]}\n", "r.yaml:3: model_: unknown name 'model_'; known"),
        (HEAD, "r.yaml: expected a range in the place of a value, such as {search: log"),
        (HEAD + "search: {trials: 0}\n" + RANGE, "r.yaml:3: search: trials and startup must be at least 1, got 0"),
        (HEAD + "search: {trial: 1}\n" + RANGE, "r.yaml:3: search.trial: unknown name 'trial'"),
        (HEAD + "seeds: [0, 1]\n" + RANGE, "r.yaml:3: seeds: a search is about one run"),
        ("data: digits\nmodel: mlp\n" + RANGE, "r.yaml:1: data: a search judges on validation images"),
        (
            HEAD + "search: {sampler: grid}\n" + RANGE,
            "r.yaml:4: train.warmup: sampler grid needs ranges that can be counted",
        ),
        (
            HEAD + "search: {objective: [accuracy, loss], pruner: median}\n" + RANGE,
            "r.yaml:3: search: pruner: with several objectives no trial can be given up; got median",
        ),
        (
            HEAD + "search: {objective: {score: f1, checks: [clean]}}\n" + RANGE,
            "r.yaml:3: search.objective.0: score: unknown name 'f1'; known: accuracy, error, loss, radius.",
        ),
    ],
)
def test_what_cannot_be_is_one_line_with_its_place(text, expected):
    assert expected in line(text)


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(RecipeError, match="expected a recipe in YAML; No such file"):
        load_plan(tmp_path / "none.yaml")


def test_the_end_of_every_range_is_tried_before_anything_runs():
    message = line(TEXT, "train.ema={search: uniform, low: 0.5, high: 1}")
    assert "ema must lie between 0 and 1, got 1.0" in message


def test_another_recipe_has_another_identity_and_more_trials_do_not():
    assert plan().identity() == plan("search.trials=9", "checks=[clean, {gaussian_noise: 0.1}]").identity()
    assert plan().identity() != plan("train.epochs=4").identity()
    assert plan().identity() != plan("search.objective=loss").identity()
    assert plan().identity() != plan("train.optimizer.sgd.lr={search: log, low: 0.01, high: 2}").identity()
