"""Verbs that only look: list, show, schema, and finding runs."""

import json
import os
import subprocess
import sys

import pytest
import typer
import yaml

from holdfast.cli import app
from holdfast.cli.list import FAMILIES
from holdfast.errors import LedgerError
from holdfast.families import QUESTIONS
from holdfast.questions.question import Needs
from holdfast.recipe import Recipe, load_recipes, parse
from holdfast.recipe.json_schema import file_schema
from holdfast.recipe.schema import FAMILIES as CHOICES
from holdfast.report.find import find_runs
from tests.end_to_end.command import holdfast

RECIPE = "data: digits\nmodel: mlp\nseeds: [0, 1]\nvariants: {a: {}, b: {train: {epochs: 3}}}\n"


def said(*argv, cwd):
    done = holdfast(*argv, cwd=cwd)
    assert (done.code, done.err) == (0, "")
    return done.out


def test_show_writes_every_run_out_so_that_it_can_be_read_back(tmp_path):
    (tmp_path / "r.yaml").write_text(RECIPE)
    shown = list(yaml.safe_load_all(said("show", "r.yaml", "--set", "train.clip=1", cwd=tmp_path)))
    assert [parse(Recipe, one) for one in shown] == load_recipes(tmp_path / "r.yaml", ["train.clip=1"])
    assert json.loads(said("show", "r.yaml", "--set", "train.clip=1", "--json", cwd=tmp_path)) == shown


def test_schema_prints_the_schema(tmp_path):
    assert json.loads(said("schema", cwd=tmp_path)) == json.loads(json.dumps(file_schema()))


@pytest.mark.parametrize("family", FAMILIES)
def test_list_knows_every_name_and_field_of_a_family(tmp_path, family):
    entries = json.loads(said("list", family, "--json", cwd=tmp_path))
    table = said("list", family, cwd=tmp_path)
    assert all(name in table for name in entries)
    assert family == "presets" or all(entry["about"] for entry in entries.values())
    assert json.loads(said("list", "--json", cwd=tmp_path))[family] == list(entries)


def test_list_leaves_out_no_family_of_the_recipes(tmp_path):
    listed = json.loads(said("list", "--json", cwd=tmp_path)).values()
    for family in CHOICES.values():
        assert list(family) in list(listed)


def test_runs_are_found_below_directories_once_and_in_order(tmp_path):
    for name in ("b/seed-1", "b/seed-0", "a"):
        (tmp_path / name / "ledger").mkdir(parents=True)
    found = [str(path.relative_to(tmp_path)) for path in find_runs([tmp_path / "b", tmp_path])]
    assert found == ["b/seed-0", "b/seed-1", "a"]
    with pytest.raises(LedgerError, match="no such directory"):
        find_runs([tmp_path / "c"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(LedgerError, match="no results in it"):
        find_runs([tmp_path / "empty"])


def commands(of, *path):
    yield list(path)
    for name, one in getattr(of, "commands", {}).items():
        yield from commands(one, *path, name)


@pytest.mark.parametrize(
    "path", list(commands(typer.main.get_command(app))), ids=lambda path: " ".join(path) or "itself"
)
def test_minus_h_is_help_everywhere(tmp_path, path):
    assert said(*path, "-h", cwd=tmp_path) == said(*path, "--help", cwd=tmp_path)


NETWORKS = ("run", "train", "search", "evaluate", "attack", "certify", "audit")


def test_every_verb_that_runs_a_network_takes_a_device():
    verbs = typer.main.get_command(app).commands
    theory = {name.replace("_", "-") for name in QUESTIONS if QUESTIONS[name].needs is Needs.NOTHING}
    asked = {**{name: verbs[name] for name in NETWORKS}, **verbs["analyse"].commands}
    asked = {name: verb for name, verb in asked.items() if name not in theory}
    for name, verb in asked.items():
        assert any("--device" in option.opts for option in verb.params), name


def test_shells_complete_verbs_and_options(monkeypatch):
    """As bash calls it."""
    environment = {**os.environ, "_HOLDFAST_COMPLETE": "complete_bash"}
    for words, expected in (("holdfast ev", "evaluate"), ("holdfast evaluate --dev", "--device")):
        line = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        code = "import sys; sys.argv = ['holdfast']; from holdfast.cli import main; main()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**environment, **line})
        assert done.stdout.split() == [expected], done.stderr
