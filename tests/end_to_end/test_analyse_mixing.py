"""`holdfast analyse mixing` and `neighbours` as a user calls them."""

import shutil

import numpy as np
import pytest

from holdfast.ensembles.magnitudes import _is_frozen as is_frozen
from holdfast.results import Ledger
from tests.end_to_end.command import good, measured, refused, said
from tests.end_to_end.test_certify import SMALL
from tests.report.reading import read

RUN, OTHER = "runs/tiny/seed-0", "runs/other/seed-0"
CHECKS = "checks=[clean, {pgd: {threat: {linf: 0.2}, steps: 3}}]"
MIX = ["analyse", "mixing", RUN, OTHER, "--strengths", "1", "--mixing", "largest", "--radii", "0.1"]
LOOK = ["analyse", "neighbours", RUN, "--k", "3,1", "--strengths", "0.1", "--examples", "10"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("holdfast.report.page.plotly_script", lambda: "")


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


def test_mixtures_are_printed_kept_by_example_and_shown(place):
    found = said(*MIX, cwd=place)
    rows = measured(place / RUN, "mixing")
    right = np.array(rows["right"].to_list())
    assert right.shape == (40, 1 + 3 + 3, 3)  # clean, three aims, and the same at another radius
    assert right[:, 0, 0].tolist() == clean(place / RUN)
    assert right[:, 0, 2].tolist() == clean(place / OTHER)
    assert found["settings"]["attack"] == "pgd linf eps=0.2 steps=3"
    assert found["settings"]["strengths"] == [0.0, 1.0, "inf"]
    at = found["result"]["strengths"][1]
    assert at["itself"]["value"] == right[:, 2, 1].mean()
    assert at["worst"]["value"] == right[:, :, 1].all(axis=1).mean()  # the smaller radius lies within the larger
    assert len(rows["robust_on_standard"][0]) == 10
    shown = good(*MIX, cwd=place)
    assert "mixtures by gradient ratios of the largest logits, pgd linf eps=0.2 steps=3, 40 images" in shown
    assert "worst within eps" in shown
    page = read(place / found["report"])
    assert any(caption.startswith("Attacks by aim: tiny/seed-0 (best) and other/seed-0") for caption in page.tables)


def test_batches_resuming_and_repeating_do_not_change_the_rows(place, monkeypatch):
    whole = said(*MIX, cwd=place)
    before = measured(place / RUN, "mixing")
    parts = sorted((place / RUN / "measures").glob("mixing-*"))
    assert len(parts) == 2
    parts[0].unlink()
    again = said(*MIX, "--batch-size", "7", cwd=place)
    assert measured(place / RUN, "mixing")["right"].to_list() == before["right"].to_list()
    assert again["result"] == whole["result"]
    monkeypatch.setattr("holdfast.analysis.mixing.mixing_measures", None)  # nothing is asked twice
    assert said(*MIX, cwd=place)["result"] == whole["result"]


@pytest.mark.parametrize("asked", [[*MIX[:6], "--radii", "none", "--examples", "4"], LOOK])
def test_many_classes_are_held_in_blocks(place, monkeypatch, asked):
    """Only networks whose weights ask for no gradient can be: these do not."""
    seen = []
    monkeypatch.setattr("holdfast.ensembles.magnitudes.REMEMBERED", 4)
    look = "holdfast.ensembles.magnitudes._is_frozen"
    monkeypatch.setattr(look, lambda model: seen.append(is_frozen(model)) or seen[-1])
    good(*asked, cwd=place)
    assert seen
    assert all(seen)


COMPOSITE = """name: both
data: {source: digits, subset: 40, validation: 0.4, test_subset: 40}
model: {composite: {standard: runs/tiny/seed-0, robust: runs/other/seed-0, mixing: probability, strength: 2}}
checks: [clean, {pgd: {threat: {linf: 0.2}, steps: 3}}]
"""


def test_the_run_of_a_composite_has_both_networks_and_its_strength(place):
    (place / "both.yaml").write_text(COMPOSITE)
    good("run", "both.yaml", cwd=place)
    found = said("analyse", "mixing", "runs/both/seed-0", "--strengths", "1", "--radii", "none", cwd=place)
    assert (found["settings"]["strengths"], found["settings"]["at"]) == ([0.0, 1.0, 2.0, "inf"], 2.0)
    assert found["settings"]["mixing"] == "probabilities"
    right = np.array(measured(place / "runs/both/seed-0", "mixing")["right"].to_list())
    ledger = Ledger(place / "runs/both/seed-0/ledger").read().filter(check="clean").sort("example")
    assert right[:, 0, 2].tolist() == ledger["correct"].to_list()
    assert "with a robust network of its own; got another" in refused(
        "analyse", "mixing", "runs/both/seed-0", OTHER, cwd=place
    )
    assert "with a mixing of its own; got --mixing" in refused(
        "analyse", "mixing", "runs/both/seed-0", "--mixing", "classes", cwd=place
    )
    assert "runs/both/seed-0 is a composite itself; expected one network" in refused(
        "analyse", "mixing", RUN, "runs/both/seed-0", cwd=place
    )


def test_a_robust_network_that_calls_a_function_needs_trust(place, monkeypatch):
    (place / "making.py").write_text(
        "from torch import nn\ndef make(classes=10):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))\n"
    )
    monkeypatch.syspath_prepend(str(place))
    (place / "made.yaml").write_text(SMALL.replace("name: tiny", "name: made"))
    made = ("--set", "model={python: {factory: 'making:make'}}", "--set", "train.epochs=1", "--set", CHECKS, "--trust")
    good("run", "made.yaml", *made, cwd=place)
    asked = ("analyse", "mixing", RUN, "runs/made/seed-0", "--strengths", "1", "--radii", "none")
    line = refused(*asked, "--mixing", "probability", cwd=place)
    assert "calls making:make" in line
    assert "allow it with --trust" in line
    assert said(*asked, "--mixing", "probability", "--trust", cwd=place)["result"]["examples"] == 40


def test_a_robust_network_of_other_classes_is_refused(place):
    x, y = np.random.default_rng(0).integers(0, 255, (60, 8, 8), dtype=np.uint8), np.arange(60) % 3
    np.savez(place / "few.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    (place / "few.yaml").write_text(SMALL.replace("name: tiny", "name: few"))
    few = f"data.source={{npz: {{path: '{place}/few.npz'}}}}"
    good("run", "few.yaml", "--set", few, "--set", "train.epochs=1", "--set", CHECKS, cwd=place)
    assert "classes" in refused("analyse", "mixing", RUN, "runs/few/seed-0", cwd=place)


def test_neighbours_are_a_question_for_each_number(place, monkeypatch):
    found = said(*LOOK, cwd=place)
    assert [*found["result"]] == ["1", "3"]
    assert found["result"]["3"]["examples"] == 10
    network = [found["result"][k]["strengths"][0] for k in ("1", "3")]
    assert network[0]["itself"] == network[0]["on_standard"]
    assert network[0]["clean"] == network[1]["clean"]
    shown = good(*LOOK, cwd=place)
    assert "uniform neighbours among 24 images, pgd linf eps=0.2 steps=3" in shown
    page = read(place / found["report"])
    assert any("Network and neighbours" in caption for caption in page.tables)
    monkeypatch.setattr("holdfast.analysis.mixing.tried", None)
    assert said(*LOOK[:4], "1", *LOOK[5:], cwd=place)["result"]["1"] == found["result"]["1"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["mixing", RUN], "analyse mixing: expected STANDARD and ROBUST, or the run of a composite"),
        (["mixing", RUN, "runs/none"], "none"),
        (["mixing", RUN, OTHER, "--mixing", "larges"], "--mixing: unknown name 'larges'; known: classes, largest"),
        (["mixing", RUN, OTHER, "--mixing", "{probability: {temperatur: 1}}"], "Did you mean 'temperature'?"),
        (["mixing", RUN, OTHER, "--mixing", "{"], "--mixing: expected a mixing as a recipe has it; got '{'"),
        (["mixing", RUN, OTHER, "--strengths", "-1"], "--strengths: expected numbers from 0 on"),
        (["mixing", RUN, OTHER, "--strengths", "many"], "--strengths"),
        (["mixing", RUN, OTHER, "--at", "-1"], "--at: expected a strength from 0 to inf, got -1"),
        (["mixing", RUN, OTHER, "--radii", "0"], "--radii: expected positive numbers"),
        (["mixing", RUN, OTHER, "--norm", "l2"], "analyse mixing: expected --eps beside --norm l2"),
        (["neighbours", RUN, "--k", "0"], "--k: expected whole numbers from 1 to the 24 training images"),
        (["neighbours", RUN, "--k", "1.5"], "--k: expected whole numbers"),
        (["neighbours", RUN, "--k", "25"], "--k: expected whole numbers"),
        (["neighbours", RUN, "--weights-of", "soft"], "--weights-of: expected uniform or distance, got soft"),
    ],
)
def test_bad_questions_get_one_line(trained, argv, words):
    assert words in refused("analyse", *argv, cwd=trained)
