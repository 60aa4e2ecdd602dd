"""`holdfast align`: an aligned network with its controls, as ordinary runs."""

import json

import pytest

from holdfast.conduct.aligning import AlignmentPlan, alignment_recipes
from holdfast.errors import CheckpointError, RecipeError
from holdfast.objectives import EGA, Align, Standard
from holdfast.runs import load_model
from tests.end_to_end.command import holdfast

RECIPE = """
name: zoo
data: {source: digits, subset: 120, test_first: 40}
train: {epochs: 1, batch_size: 40}
checks: [clean]
variants:
  source: {model: {cnn: {blocks: [[4]], hidden: []}}}
  small: {model: {mlp: {hidden: [8]}}}
"""


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    place = tmp_path_factory.mktemp("zoo")
    (place / "zoo.yaml").write_text(RECIPE)
    assert holdfast("train", "zoo.yaml", cwd=place).code == 0
    return place


SOURCE, SMALL = "runs/zoo/source/seed-0", "runs/zoo/small/seed-0"


def test_an_alignment_is_a_run_with_its_controls(zoo):
    done = holdfast("align", SOURCE, "--witness", SMALL, "--controls", "--batch-size", "40", cwd=zoo)
    assert (done.code, done.err) == (0, "")
    names = ["source-by-small", "source-by-small-at-rate-0", "source-more-training", "source-label-smoothing",
             "source-by-itself"]  # fmt: skip
    for name in names:
        assert f"zoo-aligned/{name}/seed-0: weights in" in done.out
    card = load_model(zoo / "runs" / "zoo-aligned" / "source-by-small" / "seed-0").card
    hashes = {name: load_model(zoo / path).card.hash for name, path in (("source", SOURCE), ("small", SMALL))}
    assert card.origins["init_from"]["sha256"] == hashes["source"]
    assert [one["sha256"] for one in card.origins["witnesses"]] == [hashes["small"]]
    again = holdfast("align", SOURCE, "--witness", SMALL, "--controls", "--batch-size", "40", "--json", cwd=zoo)
    runs = json.loads(again.out)["runs"]
    assert [run["name"] for run in runs] == [f"zoo-aligned/{name}/seed-0" for name in names]
    assert runs[0]["witnesses"][0]["sha256"] == hashes["small"]
    other = holdfast("align", SOURCE, "--witness", SMALL, "--batch-size", "20", cwd=zoo)
    assert other.code == 2
    assert "holds a run of another recipe (differs in train.batch_size)" in other.err


def test_the_published_defaults(zoo, monkeypatch):
    monkeypatch.chdir(zoo)
    (recipe,) = alignment_recipes(SOURCE, [SMALL])
    train = recipe.train
    assert train.objective == Align(witnesses=(SMALL,), temperature=4.0, output=1.0)
    sgd = train.optimizer
    assert (sgd.lr, sgd.momentum, sgd.nesterov, sgd.weight_decay) == (1e-3, 0.9, True, 1e-4)
    assert (train.epochs, train.batch_size, train.warmup, train.clip) == (1, 128, 0.0, None)
    assert train.init_from == SOURCE
    assert recipe.data == load_model(SOURCE).card.recipe.data


def test_controls_differ_from_the_alignment_in_one_thing(zoo, monkeypatch):
    monkeypatch.chdir(zoo)
    recipes = alignment_recipes(SOURCE, [SMALL], AlignmentPlan(lr=0.02), controls=True, name="mine")
    aligned, still, more, smooth, itself = (recipe.train for recipe in recipes)
    assert [recipe.name.split("/")[0] for recipe in recipes] == ["mine"] * 5
    assert (still.optimizer.lr, still.objective) == (0.0, aligned.objective)
    assert [one.optimizer for one in (more, smooth, itself)] == [aligned.optimizer] * 3
    assert (more.objective, smooth.objective) == (Standard(), Standard(label_smoothing=0.1))
    assert itself.objective == Align(witnesses=(SOURCE,))


def test_an_embedding_replaces_the_output_unless_both_are_wanted(zoo, monkeypatch):
    monkeypatch.chdir(zoo)
    (alone,) = alignment_recipes(SOURCE, [SMALL], AlignmentPlan(embedding="ega"))
    (both,) = alignment_recipes(SOURCE, [SMALL], AlignmentPlan(embedding="ega", output=1.0))
    assert alone.train.objective == Align(witnesses=(SMALL,), output=0.0, embedding=EGA())
    assert both.train.objective == Align(witnesses=(SMALL,), output=1.0, embedding=EGA())


def test_what_cannot_be_aligned_is_one_line(zoo, monkeypatch):
    monkeypatch.chdir(zoo)
    with pytest.raises(CheckpointError, match="there is none"):
        alignment_recipes(SOURCE, ["runs/nothing"])
    with pytest.raises(RecipeError, match="at least one witness"):
        alignment_recipes(SOURCE, [])
    with pytest.raises(RecipeError, match="embedding: unknown name 'egg'"):
        alignment_recipes(SOURCE, [SMALL], AlignmentPlan(embedding="egg"))
    done = holdfast("align", SOURCE, cwd=zoo)
    assert done.code == 2
    assert "--witness" in done.err


def test_a_held_out_network_chooses_the_epoch_of_the_alignment_and_its_controls(zoo, monkeypatch):
    monkeypatch.chdir(zoo)
    plan = AlignmentPlan(epochs=4, held_out="runs/zoo/held/seed-0", patience=2)
    with pytest.raises(RecipeError, match=r"selection by transfer_rate needs data\.validation"):
        alignment_recipes(SOURCE, [SMALL], plan, controls=True)
    with pytest.raises(RecipeError, match="patience: expected a held-out network"):
        alignment_recipes(SOURCE, [SMALL], AlignmentPlan(patience=2))
