"""A budget stops in time and leaves no number that looks complete; the repeated command goes on."""

import json
import re

import pytest

from holdfast.results import Ledger, accuracies
from tests.end_to_end.command import good, holdfast

RECIPE = """
name: short
data: {source: digits, subset: 400, test_subset: 80}
model: {cnn: {width: 0.5}}
train: {epochs: 3, batch_size: 32}
checks:
  - clean
  - autoattack: {threat: {linf: 0.1}, steps: 5, targets: 2, queries: 20}
"""
BOUND = "Not everything was run"


@pytest.fixture
def here(tmp_path):
    (tmp_path / "short.yaml").write_text(RECIPE)
    return tmp_path


def test_what_a_budget_leaves_out_is_said_and_done_later(here):
    first = holdfast("run", "short.yaml", "--set", "evaluate.budget=0s", cwd=here)
    assert first.code == 0, first.err
    assert "at most" in first.out
    assert BOUND in first.out
    assert ": apgd-ce " in first.out
    assert re.search("^ clean .* 80 $", first.out, re.MULTILINE)
    page = (here / "runs/short/report.html").read_text(encoding="utf-8")
    assert BOUND in page
    assert "apgd-ce" in page
    run = json.loads((here / "runs/short/seed-0/run.json").read_text())
    assert run["not_run"]["last"]["clean"] == 80
    second = holdfast("run", "short.yaml", cwd=here)
    assert (second.code, second.err) == (0, "")
    assert "at most" not in second.out
    assert BOUND not in second.out
    table = accuracies(Ledger(here / "runs/short/seed-0/ledger").read())
    assert table["unsettled"].to_list() == [0] * len(table)
    assert json.loads((here / "runs/short/seed-0/run.json").read_text())["not_run"] == {"last": {}}
    assert BOUND not in (here / "runs/short/report.html").read_text(encoding="utf-8")


def test_a_budget_that_is_no_time_is_one_line(here):
    good("train", "short.yaml", "--set", "train.epochs=1", cwd=here)
    refused = holdfast("evaluate", "runs/short/seed-0", "--budget", "soon", cwd=here)
    assert refused.code == 2
    assert refused.err.strip() == "holdfast: --budget: expected a time such as 90s, 10min or 1.5h; got 'soon' (str)"
    refused = holdfast("evaluate", "runs/short/seed-0", "--order", "random", cwd=here)
    assert refused.code == 2
    assert "--order" in refused.err
    assert "'published' or 'yield'" in refused.err
