"""Transferred attacks in recipes: the source is another run, loaded when its turn comes."""

import shutil

import polars as pl
import pytest

from holdfast.attacks import PGD
from holdfast.data import Digits
from holdfast.recipe import DataRecipe
from holdfast.results import Ledger
from holdfast.rng import Streams
from holdfast.runs import load_model, prepare
from holdfast.threat import Linf
from tests.end_to_end.command import good, refused

TEXT = """
name: pair
data: {source: digits, subset: 300, test_subset: 40}
model: {mlp: {hidden: [16]}}
seeds: [3]
train: {epochs: 2}
checks: [clean, {transfer: {attack: {pgd: {threat: {linf: 0.2}, steps: 4}}, source: "runs/source/seed-{seed}"}}]
evaluate: {block: 40}
"""
SOURCE = TEXT.replace("name: pair", "name: source").replace("16", "8").partition("checks")[0] + "checks: [clean]\n"
LABEL = "transfer pgd linf eps=0.2 steps=4 source=runs/source/seed-{seed}"


def with_recipes(path):
    (path / "pair.yaml").write_text(TEXT)
    (path / "source.yaml").write_text(SOURCE)
    return path


@pytest.fixture
def directory(tmp_path):
    return with_recipes(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = with_recipes(tmp_path_factory.mktemp("transfer"))
    good("run", "source.yaml", cwd=path)
    good("run", "pair.yaml", cwd=path)
    return path


@pytest.fixture
def both_runs(directory, finished):
    """A directory of the test's own with both runs, trained once."""
    shutil.copytree(finished / "runs", directory / "runs")
    return directory


def test_a_missing_source_is_refused_before_anything_is_trained(directory):
    line = refused("run", "pair.yaml", "--out", "none", cwd=directory)
    assert "pair/seed-3: checks: transfer: source runs/source/seed-3: expected" in line
    assert not (directory / "none/pair/seed-3/last.safetensors").exists()


def test_the_row_says_what_the_model_answers_where_the_attack_on_the_source_ends(both_runs):
    rows = Ledger(both_runs / "runs/pair/seed-3/ledger").read().filter(pl.col("check") == LABEL).sort("example")
    test = prepare(DataRecipe(source=Digits(), subset=300, test_subset=40), 3).test
    test = test.select(test.index.argsort())
    x, y = test.batch(slice(None))
    source = load_model(both_runs / "runs/source/seed-3").model.eval()
    model = load_model(both_runs / "runs/pair/seed-3").model.eval()
    attack = PGD(threat=Linf(0.2), steps=4, until_lost=False)
    z = attack(source, x, y, rng=Streams(3, "check", test.index))
    assert rows["prediction"].to_list() == model(z).argmax(1).tolist()
    assert rows["distance"].max() == pytest.approx(0.2)


def test_another_source_under_the_same_name_is_another_check(both_runs):
    ledger = Ledger(both_runs / "runs/pair/seed-3/ledger")
    before = set(ledger.parts())
    good("run", "pair.yaml", cwd=both_runs)
    assert set(ledger.parts()) == before
    good("run", "source.yaml", "--fresh", "--set", "train.epochs=1", cwd=both_runs)
    good("run", "pair.yaml", cwd=both_runs)
    assert len(set(ledger.parts()) - before) == 1
    assert len(ledger.parts()) == len(before)
    rows = ledger.read().filter(pl.col("check") == LABEL)
    assert len(rows) == 40


def test_a_composite_remade_with_another_strength_is_another_source(both_runs):
    good("run", "source.yaml", "--set", "name=other", "--set", "model.mlp.hidden=[12]", cwd=both_runs)
    mixed = "composite: {standard: runs/source/seed-3, robust: runs/other/seed-3, mixing: probability, strength: 0}"
    text = SOURCE.replace("name: source", "name: both").replace("train: {epochs: 2}\n", "")
    (both_runs / "both.yaml").write_text(text.replace("mlp: {hidden: [8]}", mixed))
    check = "checks=[{transfer: {attack: {fgsm: {threat: {linf: 0.3}}}, source: runs/both/seed-3}}]"
    ledger, losses = Ledger(both_runs / "runs/pair/seed-3/ledger"), []
    for strength in ("0", ".inf"):
        good("run", "both.yaml", "--fresh", "--set", f"model.composite.strength={strength}", cwd=both_runs)
        good("run", "pair.yaml", "--set", check, cwd=both_runs)
        rows = ledger.read().filter(pl.col("check").str.contains("runs/both")).sort("example")
        losses.append(rows["loss"].to_list())
    assert [len(rows) for rows in losses] == [40, 40]
    assert losses[0] != losses[1]


def test_a_source_for_other_images_is_refused_in_one_line(directory):
    other = "checks=[{transfer: {attack: {fgsm: {threat: {linf: 0.1}}}, source: broken.safetensors}}]"
    (directory / "broken.safetensors").write_bytes(b"no")
    assert "source" in refused("run", "pair.yaml", "--set", other, cwd=directory)


def test_a_source_that_calls_a_function_needs_trust(directory, tmp_path, monkeypatch):
    (tmp_path / "making.py").write_text(
        "from torch import nn\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    made = ("--set", "name=made", "--set", "model={python: {factory: 'making:make'}}")
    good("run", "source.yaml", *made, "--trust", cwd=directory)
    check = "{transfer: {attack: {fgsm: {threat: {linf: 0.1}}}, source: runs/made/seed-3}}"
    run = ("run", "pair.yaml", "--set", "name=trusting", "--set")
    line = refused(*run, f"checks=[{check}]", cwd=directory)
    assert "expected --trust, since this recipe runs code that could do anything: making:make" in line
    assert "a file cannot allow code" in refused(
        *run, f"checks=[{check.replace('}}', ', trust: true}}')}]", cwd=directory
    )
    assert good(*run, f"checks=[{check}]", "--trust", cwd=directory)
    assert good(*run, f"checks=[{check}]", cwd=directory)  # remembered
