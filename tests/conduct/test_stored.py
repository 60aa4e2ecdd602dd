"""What `holdfast.load_run` gives of a run: recipe, network, results, answers and report."""

import json
import sys
from types import SimpleNamespace

import pytest
import torch

import holdfast
from holdfast.errors import CheckpointError, LedgerError
from holdfast.recipe import Recipe
from tests.conduct.test_runs import RECIPE

NAME = "tiny/seed-0"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    out = tmp_path_factory.mktemp("stored")
    for _ in holdfast.run(RECIPE, out=out):
        pass
    return out / NAME


def test_the_recipe_is_the_one_it_was_trained_with(path):
    run = holdfast.load_run(path)
    assert isinstance(run.recipe, Recipe)
    assert (run.name, run.recipe.name, run.recipe.train.epochs) == (NAME, NAME, 2)
    assert run.facts["seed"] == 0


def test_the_network_has_the_weights_that_are_asked_for(path):
    run = holdfast.load_run(path)
    best = holdfast.load_model(path).model
    model = run.model()
    assert not model.training
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), best.parameters(), strict=True))
    into = holdfast.load_model(path).model.train()
    torch.nn.init.zeros_(next(into.parameters()))
    assert run.model(into=into) is into
    assert not into.training
    assert all(torch.equal(one, other) for one, other in zip(into.parameters(), best.parameters(), strict=True))
    assert run.load().card.hash == run.facts["weights"]["best"]["sha256"]
    with pytest.raises(CheckpointError, match="expected one of its weights, best"):
        run.model("../../elsewhere")


def test_the_ledger_has_a_row_for_each_example_and_check(path):
    ledger = holdfast.load_run(path).ledger
    assert set(ledger["kind"]) == {"clean", "attack"}
    assert len(ledger) == 2 * 60


def test_pandas_gets_the_same_columns(path, monkeypatch):
    run = holdfast.load_run(path)
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda columns: columns))
    columns = run.to_pandas()
    assert list(columns) == run.ledger.columns
    assert columns["correct"] == run.ledger["correct"].to_list()


def test_without_pandas_there_is_one_line(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(LedgerError, match="expected pandas, got none; pip install pandas"):
        holdfast.load_run(path).to_pandas()


def test_answers_are_found_by_the_name_of_the_question(path):
    run = holdfast.load_run(path)
    (answer,) = run.answers["gradient_norm"]
    assert len(answer.rows) == 60
    assert "Input-gradient norm" in run.answers["gradient_norm"]._repr_html_()
    assert "Accuracy in each check" in run._repr_html_()
    assert "gradient_norm" in answer.rows.columns


def test_the_report_is_a_page_of_this_run(path, tmp_path):
    run = holdfast.load_run(path)
    assert run.report() == path / "report.html"
    assert run.report(tmp_path / "page.html") == tmp_path / "page.html"
    assert (tmp_path / "page.html").read_bytes() == (path / "report.html").read_bytes()
    assert json.loads((path / "run.json").read_text())["name"] in (tmp_path / "page.html").read_text(encoding="utf-8")
