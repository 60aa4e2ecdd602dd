"""A network at chance level, on every road to its numbers."""

import json

import pytest
import torch
from torch import nn

import holdfast as library
from tests import zoo
from tests.end_to_end.command import good, holdfast

RECIPE = """
name: two
data: {source: digits, test_subset: 100}
model: {mlp: {hidden: [32]}}
train: {epochs: 4, batch_size: 32, optimizer: {adam: {lr: 0.005}}}
checks: [clean, {gaussian_noise: {sigma: 0.1}}, {pgd: {threat: {linf: 0.4}, steps: 10}}]
variants:
  alive: {}
  dead: {train: {optimizer: {sgd: {lr: 0.1, weight_decay: 5}}}}
"""
DEAD, ALIVE = "runs/two/dead/seed-0", "runs/two/alive/seed-0"
FOREIGN = ("--model", "python:tests.end_to_end.foreign:Same", "--data", "digits", "--subset", "60")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("chance")
    (path / "two.yaml").write_text(RECIPE)
    (path / "said.txt").write_text(good("run", "two.yaml", cwd=path))
    return path


def marks(records):
    return {(record["run"], record["weights"]): record["at_chance"] for record in records}


def test_a_run_marks_the_network_in_its_table_and_says_what_to_try(place):
    said = (place / "said.txt").read_text()
    lines = [line for line in said.splitlines() if "t chance level" in line]
    assert lines
    assert all("dead" in line and "train.threat_warmup" in line for line in lines)
    assert lines[0].startswith("dead: At chance level: ")
    assert "two/dead/seed-0" not in "".join(line for line in said.splitlines() if "not to be trusted" in line)


def test_records_of_every_verb_are_marked(place):
    (dead, alive) = (json.loads(good("evaluate", run, "--json", cwd=place)) for run in (DEAD, ALIVE))
    assert set(marks(dead["results"]).values()) == {True}
    assert set(marks(alive["results"]).values()) == {False}
    assert {record["level"] for record in dead["verdicts"] if record["flag"] == "chance"} == {"fail"}
    attacked = json.loads(
        good("attack", DEAD, "--attack", "fgsm", "--norm", "linf", "--eps", "0.1", "--json", cwd=place)
    )
    assert attacked["at_chance"] is True
    good("report", "runs/two", "--headline", "numbers.json", cwd=place)
    cards = json.loads((place / "numbers.json").read_text())
    assert {card["name"]: card["at_chance"] for card in cards} == {"two/dead/seed-0": True, "two/alive/seed-0": False}


def test_comparisons_and_selections_never_prefer_it(place):
    compared = json.loads(good("compare", ALIVE, DEAD, "--json", cwd=place))
    assert all(pair["at_chance"] == ["dead"] for pair in compared["paired"])
    assert "dead is at chance level" in good("compare", ALIVE, DEAD, cwd=place)
    options = ("--by", "worst case, linf eps=0.4", "--accuracy", "0.5", "--within", "0.5")
    selection = json.loads(good("select", DEAD, ALIVE, *options, "--json", cwd=place))
    alive, dead = selection["runs"]
    assert (alive["at_chance"], dead["at_chance"]) == (False, True)
    assert alive[selection["by"]] < dead[selection["by"]]


def test_an_audit_says_it_first_and_advises_nothing_else(place):
    done = holdfast("audit", DEAD, "--examples", "8", cwd=place)
    assert (done.code, done.err) == (1, "")
    assert "not to be trusted: chance" in done.out.splitlines()
    assert "BPDA" not in done.out
    records = json.loads(holdfast("audit", DEAD, "--examples", "8", "--json", cwd=place).out)
    assert records["failed"] == ["chance"]


def test_of_a_foreign_network_the_normalisation_and_the_weights_come_first(place):
    said = good("evaluate", *FOREIGN, cwd=place)
    (line,) = [line for line in said.splitlines() if "t chance level" in line]
    assert line.startswith("Same-digits-60: At chance level: ")
    assert "60 of 60 images get the same answer. " in line
    assert "What to do: check the normalisation (--mean and --std" in line
    assert "not to be trusted" not in said  # no advice on a gradient of zero


def test_an_evaluation_in_python_is_marked():
    x, y = zoo.digits()

    class Zero(nn.Module):
        def forward(self, x):
            return torch.zeros(len(x), 10) + 0 * x.flatten(1)[:, :10]

    dead = library.evaluate(Zero(), x, y, "clean")
    assert dead.at_chance is True
    assert "model (given weights) is at chance level: 50 of 500" in str(dead)
    alive = library.evaluate(zoo.digits_mlp(), x, y, "clean")
    assert alive.at_chance is False
    assert "chance" not in str(alive)
    assert library.evaluate(Zero(), x[:3], y[:3], "clean").at_chance is None
