"""`holdfast analyse mixing` and `neighbours` as a user calls them."""

import shutil

import numpy as np
import pytest

from holdfast.ensembles.magnitudes import _is_frozen as is_frozen
from holdfast.results import Ledger
from tests.end_to_end.command import good, refused, said
from tests.end_to_end.test_certify import SMALL
from tests.report.reading import read

RUN, OTHER = "runs/tiny/seed-0", "runs/other/seed-0"
CHECKS = "checks=[clean, {pgd: {threat: {linf: 0.2}, steps: 3}}]"
MIX = ["analyse", "mixing", RUN, "--robust", OTHER, "--strengths", "1", "--gradients", "largest", "--radii", "0.1"]
LOOK = ["analyse", "neighbours", RUN, "--k", "3,1", "--strengths", "0.1", "--examples", "10"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("pair")
    (path / "tiny.yaml").write_text(SMALL)
    (path / "other.yaml").write_text(SMALL.replace("name: tiny", "name: other"))
    good("run", "tiny.yaml", "--set", "train.epochs=6", "--set", CHECKS, cwd=path)
    good("run", "other.yaml", "--set", "train.epochs=3", "--set", CHECKS, cwd=path)
    return path


@pytest.fixture
def place(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "here")
    return tmp_path / "here"


def clean(path):
    rows = Ledger(path / "ledger").read().filter(check="clean", weights="best").sort("example")
    return rows["correct"].to_list()


def shown_in(output, caption):
    (table,) = [item for item in output["shown"] if item.get("caption") == caption]
    return {row["name"]: row["cells"] for row in table["rows"]}


def test_mixtures_are_printed_kept_by_example_and_shown(place):
    output = said(*MIX, cwd=place)
    (answer,) = output["answers"]
    right = np.array(answer["columns"]["right"])
    assert right.shape == (40, 1 + 3 + 3, 3)  # clean, three aims, and the same at another radius
    assert right[:, 0, 0].tolist() == clean(place / RUN)
    assert right[:, 0, 2].tolist() == clean(place / OTHER)
    settings = answer["settings"]
    assert settings["attack"] == "pgd linf eps=0.2 steps=3"
    assert (settings["strengths"], settings["robust"]) == ([0.0, 1.0, "inf"], "other/seed-0")
    row = shown_in(output, "Accuracy by strength")["1"]
    assert row[3] == right[:, 2, 1].mean()
    assert row[4] == right[:, :, 1].all(axis=1).mean()  # the smaller radius lies within the larger
    assert len(answer["columns"]["robust_on_standard"][0]) == 10
    text = good(*MIX, cwd=place)
    assert "gradient ratios of the largest logits, pgd linf eps=0.2 steps=3" in text.replace("\n", " ")
    assert "Worst case of the same attacks, by radius" in text
    page = (place / output["reports"][0]).read_text()
    assert "tiny/seed-0 (best) and other/seed-0, gradient ratios of the largest logits" in page
    assert "Accuracy by aim of the attack" in read(place / output["reports"][0]).tables


def test_batches_resuming_and_repeating_do_not_change_the_rows(place, monkeypatch):
    whole = said(*MIX, cwd=place)
    parts = sorted((place / RUN / "answers").glob("mixing-*.parquet"))
    assert len(parts) == 2
    parts[0].unlink()
    sums = place / RUN / "answers/checksums.txt"
    lines = sums.read_text().splitlines(keepends=True)
    sums.write_text("".join(line for line in lines if parts[0].name not in line))
    again = said(*MIX, "--batch-size", "7", cwd=place)
    assert again["answers"][0]["columns"]["right"] == whole["answers"][0]["columns"]["right"]
    assert shown_in(again, "Accuracy by strength") == shown_in(whole, "Accuracy by strength")
    monkeypatch.setattr("holdfast.questions.mixing.measurement.mixing_measures", None)  # nothing is measured twice
    assert said(*MIX, cwd=place)["answers"] == again["answers"]


@pytest.mark.parametrize("command", [[*MIX[:7], "--radii", "[]", "--examples", "4"], LOOK])
def test_many_classes_are_held_in_blocks(place, monkeypatch, command):
    """Only networks whose weights ask for no gradient can be: these do not."""
    seen = []
    monkeypatch.setattr("holdfast.ensembles.magnitudes.REMEMBERED", 4)
    look = "holdfast.ensembles.magnitudes._is_frozen"
    monkeypatch.setattr(look, lambda model: seen.append(is_frozen(model)) or seen[-1])
    good(*command, cwd=place)
    assert seen
    assert all(seen)


def test_a_recipe_mixes_the_run_with_that_of_the_same_seed(place):
    asked = "analyses=[{mixing: {robust: 'runs/other/seed-{seed}', strengths: [1], radii: [], examples: 4}}]"
    output = said("run", "tiny.yaml", "--set", "train.epochs=6", "--set", CHECKS, "--set", asked, cwd=place)
    assert (
        "tiny/seed-0 (best) and other/seed-0, gradient ratios of all classes" in (place / output["report"]).read_text()
    )


COMPOSITE = """name: both
data: {source: digits, subset: 40, validation: 0.4, test_subset: 40}
model: {composite: {standard: runs/tiny/seed-0, robust: runs/other/seed-0, mixing: probability, strength: 2}}
checks: [clean, {pgd: {threat: {linf: 0.2}, steps: 3}}]
"""


def test_the_run_of_a_composite_has_both_networks_and_its_strength(place):
    (place / "both.yaml").write_text(COMPOSITE)
    good("run", "both.yaml", cwd=place)
    output = said("analyse", "mixing", "runs/both/seed-0", "--strengths", "1", "--radii", "[]", cwd=place)
    (answer,) = output["answers"]
    assert (answer["settings"]["strengths"], answer["settings"]["at"]) == ([0.0, 1.0, 2.0, "inf"], 2.0)
    assert answer["settings"]["mixing"] == "probabilities"
    right = np.array(answer["columns"]["right"])
    ledger = Ledger(place / "runs/both/seed-0/ledger").read().filter(check="clean").sort("example")
    assert right[:, 0, 2].tolist() == ledger["correct"].to_list()
    for options in (("--robust", OTHER), ("--mixing", "probability"), ("--gradients", "largest")):
        line = refused("analyse", "mixing", "runs/both/seed-0", *options, cwd=place)
        assert "the run is of a composite, which has its own; expected none" in line
    line = refused("analyse", "mixing", RUN, "--robust", "runs/both/seed-0", cwd=place)
    assert "robust: runs/both/seed-0 is a composite itself; expected one network" in line


def test_a_composite_of_neighbours_is_another_question(place):
    (place / "both.yaml").write_text(COMPOSITE.replace("robust: runs/other/seed-0", "neighbours: {k: 3}"))
    good("run", "both.yaml", cwd=place)
    assert "ask `holdfast analyse neighbours`" in refused("analyse", "mixing", "runs/both/seed-0", cwd=place)


def test_a_robust_network_that_calls_a_function_needs_trust(place, monkeypatch):
    (place / "making.py").write_text(
        "from torch import nn\ndef make(classes=10):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))\n"
    )
    monkeypatch.syspath_prepend(str(place))
    (place / "made.yaml").write_text(SMALL.replace("name: tiny", "name: made"))
    made = ("--set", "model={python: {factory: 'making:make'}}", "--set", "train.epochs=1", "--set", CHECKS, "--trust")
    good("run", "made.yaml", *made, cwd=place)
    asked = ("analyse", "mixing", RUN, "--robust", "runs/made/seed-0", "--strengths", "1", "--radii", "[]")
    line = refused(*asked, "--mixing", "probability", cwd=place)
    assert "calls making:make" in line
    assert "allow it with --trust" in line
    assert said(*asked, "--mixing", "probability", "--trust", cwd=place)["answers"][0]["examples"] == 40


def test_a_robust_network_of_other_classes_is_refused(place):
    x, y = np.random.default_rng(0).integers(0, 255, (60, 8, 8), dtype=np.uint8), np.arange(60) % 3
    np.savez(place / "few.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    (place / "few.yaml").write_text(SMALL.replace("name: tiny", "name: few"))
    few = f"data.source={{npz: {{path: '{place}/few.npz'}}}}"
    good("run", "few.yaml", "--set", few, "--set", "train.epochs=1", "--set", CHECKS, cwd=place)
    assert "classes" in refused("analyse", "mixing", RUN, "--robust", "runs/few/seed-0", cwd=place)


def test_neighbours_are_printed_kept_by_example_and_shown(place, monkeypatch):
    output = said(*LOOK, cwd=place)
    (answer,) = output["answers"]
    assert (answer["settings"]["k"], answer["examples"]) == ([1, 3], 10)
    assert np.array(answer["columns"]["right"]).shape == (10, 2, 1 + 3, 3)  # numbers, clean and three aims, mixtures
    rows = shown_in(output, "Accuracy by number of neighbours and strength")
    alone, other = (rows[f"k = {k}, strength 0"] for k in (1, 3))
    assert alone[2] == alone[1]
    assert alone[0] == other[0]
    assert "uniform neighbours among 24 images, pgd linf eps=0.2 steps=3" in good(*LOOK, cwd=place).replace("\n", " ")
    assert "Accuracy by number of neighbours and strength" in read(place / output["reports"][0]).tables
    monkeypatch.setattr("holdfast.questions.mixing.measurement.tried", None)
    assert said(*LOOK, "--k", "1,3", cwd=place) == output  # the same numbers in another order


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["mixing", RUN], "robust: expected the robust run or its weights, since the run is not of a composite"),
        (["mixing", RUN, "--robust", "runs/none"], "none"),
        (
            ["mixing", RUN, "--mixing", "probabilit"],
            "--mixing: unknown name 'probabilit'; known: gradient_ratio",
        ),
        (["mixing", RUN, "--mixing", "{probability: {temperatur: 1}}"], "Did you mean 'temperature'?"),
        (["mixing", RUN, "--mixing", "{"], "--mixing: expected a value as in a recipe; got '{'"),
        (["mixing", RUN, "--gradients", "larges"], "--gradients: expected 'classes' or 'largest'; got 'larges'"),
        (
            ["mixing", RUN, "--gradients", "largest", "--mixing", "probability"],
            "expected no other way to mix beside largest",
        ),
        (["mixing", RUN, "--strengths", "-1"], "strengths: expected numbers from 0 on"),
        (["mixing", RUN, "--strengths", "many"], "--strengths"),
        (["mixing", RUN, "--at", "-1"], "at: expected a strength from 0 to inf, got -1"),
        (["mixing", RUN, "--radii", "0"], "radii: expected positive numbers"),
        (["mixing", RUN, "--norm", "l2"], "norm: expected eps beside norm l2"),
        (["mixing", RUN, "--examples", "0"], "examples must be at least 1, got 0"),
        (["neighbours", RUN, "--k", "0"], "k: expected whole numbers from 1 on, such as 1,10,100; got [0]"),
        (["neighbours", RUN, "--k", "1.5"], "--k"),
        (["neighbours", RUN, "--k", "25"], "k: expected whole numbers from 1 to the 24 training images, got [25]"),
        (["neighbours", RUN, "--weights-of", "soft"], "--weights-of: expected 'uniform' or 'distance'; got 'soft'"),
        (["neighbours", RUN, "--strengths", "-1"], "strengths: expected numbers from 0 on"),
    ],
)
def test_bad_questions_get_one_line(trained, argv, words):
    assert words in refused("analyse", *argv, cwd=trained)
