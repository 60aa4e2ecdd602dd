"""All seeds and variants of a recipe are tested on the same images, and directories with others are not mixed up."""

import json
import re
import shutil

import pytest

from holdfast.data import subset
from holdfast.parquet import to_parquet
from holdfast.results import Ledger
from tests.end_to_end.command import good, holdfast, refused, said
from tests.tampering import put

RECIPE = """
name: tiny
seeds: [0, 1]
data: {source: digits, subset: 40, test_subset: 60}
model: {mlp: {hidden: [8]}}
train: {epochs: 1, batch_size: 8, optimizer: {sgd: {lr: 0.1}}}
checks: [clean, {fgsm: {threat: {linf: 0.1}}}]
"""
RUNS = [f"runs/tiny/seed-{seed}" for seed in (0, 1)]


def examples(path):
    return Ledger(path / "ledger").examples()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The recipe as it runs now."""
    path = tmp_path_factory.mktemp("now")
    (path / "tiny.yaml").write_text(RECIPE)
    good("run", "tiny.yaml", cwd=path)
    return path


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """The recipe as earlier versions ran it: test images drawn with the run's seed, and not recorded."""
    path = tmp_path_factory.mktemp("earlier")
    (path / "tiny.yaml").write_text(RECIPE)
    with pytest.MonkeyPatch.context() as patch:
        for seed in (0, 1):
            patch.setattr(
                "holdfast.runs.splits._tested", lambda test, recipe, s=seed: subset(test, recipe.test_subset, s)
            )
            good("run", "tiny.yaml", "--set", f"seeds=[{seed}]", cwd=path)
    for run in RUNS:
        facts = json.loads((path / run / "run.json").read_text())
        del facts["data"]["examples"]
        for weights in facts["weights"].values():
            del weights["outputs"]
        put((path / run / "run.json"), json.dumps(facts))
    return path


@pytest.fixture
def place(earlier, tmp_path):
    shutil.copytree(earlier, tmp_path / "here")
    return tmp_path / "here"


def test_seeds_share_their_test_images_and_not_their_training_images(finished):
    assert examples(finished / RUNS[0]) == examples(finished / RUNS[1])
    assert len(examples(finished / RUNS[0])) == 60
    (pair, *_) = said("compare", *RUNS, cwd=finished)["paired"]
    assert pair["examples"] == 60
    assert "on the same 60 images" in good("compare", *RUNS, cwd=finished)
    assert "Not all numbers are comparable" not in good("compare", *RUNS, cwd=finished)
    from holdfast.recipe import load_recipes
    from holdfast.runs import prepare

    first, second = (prepare(recipe.data, recipe.seed) for recipe in load_recipes(finished / "tiny.yaml"))
    assert first.train.index.tolist() != second.train.index.tolist()


def test_fewer_images_for_an_analysis_are_the_same_for_all_seeds(finished):
    asked = ("analyse", "neighbours", *RUNS, "--k", "1", "--strengths", "1", "--eps", "0.1")
    first, second = said(*asked, "--examples", "10", cwd=finished)["answers"]
    assert first["columns"]["example"] == second["columns"]["example"]
    assert [first["examples"], second["examples"], len(first["columns"]["example"])] == [10, 10, 10]
    whole, more = (said(*asked, "--examples", str(count), cwd=finished)["answers"][0] for count in (60, 100))
    assert whole == more  # of no more images than there are
    assert set(whole["columns"]["example"]) == examples(finished / RUNS[0])


def test_another_seed_of_the_draw_gives_other_test_images(finished, tmp_path):
    (tmp_path / "tiny.yaml").write_text(RECIPE.replace("test_subset: 60", "test_subset: 60, test_seed: 5"))
    good("run", "tiny.yaml", "--set", "seeds=[0]", cwd=tmp_path)
    assert examples(tmp_path / RUNS[0]) != examples(finished / RUNS[0])


@pytest.mark.parametrize("command", [["run", "tiny.yaml", "--set", "seeds=[1]"], ["evaluate", RUNS[1]]], ids=" ".join)
def test_a_directory_of_an_earlier_version_keeps_its_images_and_says_so(place, command):
    before = examples(place / RUNS[1])
    checks = ["--set", "checks=[clean, {gaussian_noise: 0.1}]"] if command[0] == "run" else ["--checks", "quick"]
    done = holdfast(*command, *checks, cwd=place)
    assert done.code == 0
    (line,) = done.err.splitlines()
    assert line.startswith(f"{RUNS[1]}: keeps the test images of its results, which an earlier version drew with the")
    assert f"`holdfast evaluate {RUNS[1]} --fresh`" in line
    rows = Ledger(place / RUNS[1] / "ledger").read()
    assert set(rows["example"]) == before
    assert rows["check"].n_unique() > 2
    assert json.loads((place / RUNS[1] / "run.json").read_text())["data"]["examples"]
    again = holdfast(*command, *checks, cwd=place)  # now its directory says which images these are
    assert (again.code, again.err) == (0, done.err)
    assert examples(place / RUNS[1]) == before


@pytest.mark.parametrize("recorded", [False, True])
def test_measured_afresh_it_has_the_images_that_all_seeds_share(place, recorded):
    if recorded:  # its directory says which images it has
        assert holdfast("evaluate", RUNS[1], cwd=place).code == 0
    good("evaluate", RUNS[1], "--fresh", cwd=place)
    assert examples(place / RUNS[1]) == examples(place / RUNS[0])
    assert good("run", "tiny.yaml", cwd=place)
    assert good("evaluate", RUNS[1], cwd=place)


def test_runs_with_few_images_in_common_say_how_many_are_compared(earlier):
    shared = len(examples(earlier / RUNS[0]) & examples(earlier / RUNS[1]))
    assert 0 < shared < 30
    shown = re.sub(r"\s+", " ", good("compare", *RUNS, cwd=earlier))
    assert f"on the {shared} image{'' if shared == 1 else 's'} that both have, of 60 and 60" in shown
    assert f"seed-1 ({shared} of 60 in common)" in shown
    assert {pair["examples"] for pair in said("compare", *RUNS, cwd=earlier)["paired"]} == {shared}


def test_runs_without_a_common_image_are_not_compared(place):
    part_files = list((place / RUNS[1] / "ledger").glob("*.parquet"))
    import polars as pl

    for part in part_files:
        put(part, to_parquet(pl.read_parquet(part).with_columns(example=pl.col("example") + 1000)))
    line = refused("compare", *RUNS, cwd=place)
    assert "have no test image in common: not compared; measure them on the same ones" in line


def test_results_of_unrecorded_other_images_are_not_added_to(place):
    """Neither the draw of today nor that of earlier versions: nobody knows what they are."""
    import polars as pl

    for part in (place / RUNS[0] / "ledger").glob("*.parquet"):
        put(part, to_parquet(pl.read_parquet(part).with_columns(example=pl.col("example") + 1)))
    line = refused("evaluate", RUNS[0], "--checks", "quick", cwd=place)
    assert "holds results of other test images" in line
    assert "--fresh" in line
