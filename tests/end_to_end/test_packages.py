"""Names from installed packages work wherever ours do, and a package that is broken stops nobody else."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import holdfast
from holdfast import families
from holdfast.errors import RecipeError
from holdfast.models import read_metadata
from holdfast.recipe import file_schema, parse_recipes
from holdfast.runs import load_model
from tests.end_to_end.command import good, refused
from tests.plugged import forget, plugged
from tests.training.tiny import TEXT

__all__ = ["plugged"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
RECIPE = (
    TEXT.replace("name: tiny", "name: named").replace("batch_size: 8", "batch_size: 8, objective: label_smoothing")
    + """
checks:
  - clean
  - momentum: {threat: {linf: 0.1}, steps: 2}
  - eot: {attack: {momentum: {threat: {linf: 0.2}}}, draws: 2}
analyses: [entropy]
"""
)


@pytest.fixture
def example(plugged):
    """The example is installed."""
    shutil.copytree(EXAMPLE / "src" / "holdfast_example", plugged.place / "holdfast_example")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    plugged(project["name"], {}, project["entry-points"])


@pytest.fixture
def run(example, tmp_path):
    """A run of the recipe, with nothing imported before."""
    (tmp_path / "named.yaml").write_text(RECIPE)
    assert "holdfast_example.momentum" not in sys.modules
    good("run", "named.yaml", cwd=tmp_path)
    return tmp_path / "runs/named/seed-0"


def uninstall():
    """Forget the packages of the test."""
    for name in [name for name in sys.modules if name.startswith("holdfast_example")]:
        del sys.modules[name]
    for registry in families.ALL.values():
        for name in ("momentum", "label_smoothing", "entropy"):
            registry._loaded.pop(name, None)
    sys.path[:] = [place for place in sys.path if not place.endswith("packages") or "site" in place]
    forget()


def test_list_names_the_package(example, tmp_path):
    assert "momentum (holdfast-example)" in good("list", "attacks", cwd=tmp_path)
    assert "momentum (holdfast-example)" in good("list", cwd=tmp_path)
    listed = json.loads(good("list", "checks", "--json", cwd=tmp_path))
    assert listed["momentum"]["package"] == "holdfast-example"
    assert listed["momentum"]["fields"] == ["threat", "steps", "decay"]
    assert "package" not in listed["pgd"]


def test_a_recipe_may_name_them(run):
    stored = holdfast.load_run(run)
    rows = {row["check"]: row for row in stored.ledger.unique("check").to_dicts()}
    assert set(rows) == {"clean", "momentum linf eps=0.1 steps=2", "eot momentum linf eps=0.2 draws=2"}
    row = rows["momentum linf eps=0.1 steps=2"]
    assert (row["method"], row["access"]) == ("momentum", "gradients")
    assert json.loads(row["params"]) == {"threat": {"linf": {"eps": 0.1}}, "steps": 2, "decay": 1.0}
    assert "Entropy of predictions" in stored.report().read_text()
    assert "label_smoothing" in (run / "recipe.yaml").read_text()


def test_show_says_which_code_of_packages_it_would_run(example, tmp_path):
    (tmp_path / "named.yaml").write_text(RECIPE)
    lines = good("show", "named.yaml", cwd=tmp_path).split("\n")
    assert lines[0] == (
        "# Code of installed packages that it would run: holdfast_example.entropy:Entropy, "
        "holdfast_example.label_smoothing:LabelSmoothing, holdfast_example.momentum:Momentum"
    )


def test_commands_take_them(run):
    place = run.parents[2]
    good("evaluate", run, "--checks", "{momentum: {threat: {l2: 0.3}}}", cwd=place)
    assert "momentum l2 eps=0.3" in set(holdfast.load_run(run).ledger["check"])
    good("attack", run, "--attack", "momentum", "--norm", "linf", "--eps", "0.05", cwd=place)
    assert "momentum linf eps=0.05" in set(holdfast.load_run(run).ledger["check"])
    assert "Entropy of predictions" in good("analyse", "entropy", run, "--temperature", "2", cwd=place)
    assert "temperature must be positive" in refused("analyse", "entropy", run, "--temperature", "0", cwd=place)
    assert "entropy" in good("analyse", "--help", cwd=place)


def test_an_unknown_name_lists_them(example):
    with pytest.raises(RecipeError, match=r"unknown name 'momentumm'; known: .*momentum,.*Did you mean 'momentum'"):
        parse_recipes(TEXT + "checks: [{momentumm: {threat: {linf: 0.1}}}]")


def test_the_schema_has_them(example):
    choices = file_schema()["$defs"]["Attack"]["anyOf"]
    (attacks,) = [one["properties"] for one in choices if "pgd" in one.get("properties", {})]
    assert "momentum" in attacks
    assert attacks["python"]["anyOf"][1]["required"] == ["at"]


def test_a_network_is_rebuilt_without_the_package_that_trained_it(run):
    uninstall()
    assert load_model(run).model
    place = run.parents[2]
    good("evaluate", run, "--checks", "clean", cwd=place)
    assert "unknown name 'momentum'" in refused("evaluate", run, cwd=place)
    assert "unknown name 'label_smoothing'" in refused("run", "named.yaml", cwd=place)
    page = holdfast.load_run(run).report().read_text()
    assert "There are answers to &#39;entropy&#39;, which no installed package presents" in page
    assert "label_smoothing" in read_metadata(run / "best.safetensors")["recipe"]


def test_rebuilding_a_network_imports_no_package(run):
    looked = "[name for name in sys.modules if name.startswith('holdfast_example')]"
    code = f"import sys, holdfast; holdfast.load_model({str(run)!r}); print({looked})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "[]", done.stderr


NET = """
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Flat:
    width: int = 4

    def __call__(self, shape, classes):
        if self.width > 9:
            raise KeyError("too wide")
        return nn.Sequential(nn.Flatten(), nn.Linear(64, self.width), nn.Linear(self.width, classes))
"""


def test_a_network_of_a_package_is_trained_and_rebuilt(plugged, tmp_path):
    plugged("holdfast-flat", {"flat": NET}, {"holdfast.models": {"flat": "flat:Flat"}})
    text = TEXT.replace("{mlp: {hidden: [8]}}", "{flat: {width: 3}}")
    (tmp_path / "tiny.yaml").write_text(text)
    good("run", "tiny.yaml", cwd=tmp_path)
    assert load_model(tmp_path / "runs/tiny/seed-0").model[1].out_features == 3
    (tmp_path / "wide.yaml").write_text(text.replace("width: 3", "width: 30").replace("name: tiny", "name: wide"))
    assert "model: KeyError: 'too wide'" in refused("run", "wide.yaml", cwd=tmp_path)


@pytest.fixture
def broken(plugged):
    names = {"holdfast.attacks": {"odd": "odd:Odd"}, "holdfast.questions": {"odd": "odd:Odd"}}
    plugged("holdfast-odd", {"odd": "raise RuntimeError('no licence')"}, names)


def test_a_broken_package_stops_nobody_else(broken, tmp_path):
    (tmp_path / "tiny.yaml").write_text(TEXT + "analyses: [gradient_norm]\n")
    good("run", "tiny.yaml", cwd=tmp_path)
    assert "pgd" in good("schema", cwd=tmp_path)
    assert "licence" in good("list", "attacks", cwd=tmp_path)
    assert "Cannot be used" in good("analyse", "--help", cwd=tmp_path)
    good("analyse", "gradient-norm", "runs/tiny/seed-0", cwd=tmp_path)


def test_a_broken_package_is_one_line_where_it_is_named(broken, tmp_path):
    (tmp_path / "odd.yaml").write_text(TEXT + "checks: [odd]\nanalyses: [odd]\n")
    for command in (("run", "odd.yaml"), ("show", "odd.yaml"), ("analyse", "odd")):
        line = refused(*command, cwd=tmp_path)
        assert "entry point 'odd:Odd' of package holdfast-odd: cannot import 'odd': RuntimeError: no licence" in line


def test_a_question_with_a_name_of_ours_is_one_line(plugged, tmp_path):
    plugged("holdfast-thief", {"theft": ""}, {"holdfast.questions": {"thickness": "theft:Thickness"}})
    families.QUESTIONS._loaded.pop("thickness", None)
    line = refused("analyse", "thickness", cwd=tmp_path)
    assert "'thickness' is a name of holdfast's own and an entry point of holdfast-thief" in line
    assert "flat" in good("analyse", "flatness", "--help", cwd=tmp_path)


@pytest.mark.slow
def test_the_example_is_installed_and_works_as_its_readme_says(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    state = str(tmp_path / "state")

    def called(*command, cwd=tmp_path, first=target):
        places = os.pathsep.join([str(first), *sys.path])
        environment = {**os.environ, "PYTHONPATH": places, "XDG_STATE_HOME": state}
        command = [sys.executable, "-m", *map(str, command)]
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index")
    called("pip", "install", *quiet, "--target", target, source)
    assert "momentum (holdfast-example)" in called("holdfast", "list", "attacks")
    called("holdfast", "run", EXAMPLE / "recipe.yaml")
    called("holdfast", "analyse", "entropy", "runs/plugged/seed-0", "--temperature", "2")
    assert "Entropy of predictions" in (tmp_path / "runs/plugged/report.html").read_text()
    here = {"cwd": source / "src", "first": tmp_path}  # where it is not installed
    assert "Code that it would run" in called("holdfast", "show", EXAMPLE / "by_place.yaml", **here)
    called("holdfast", "run", EXAMPLE / "by_place.yaml", "--trust", "--out", tmp_path / "runs", **here)
    ledgers = {name: holdfast.load_run(tmp_path / f"runs/{name}/seed-0").ledger for name in ("plugged", "placed")}
    assert set(ledgers["plugged"]["check"]) >= {"clean", "momentum linf eps=0.1"}
    assert set(ledgers["placed"]["check"]) == {"clean", "Momentum linf eps=0.1"}
    called("pytest", "-q", "-p", "no:cacheprovider", source / "tests", cwd=source)


QUESTION = '''
from dataclasses import dataclass
from typing import ClassVar

from holdfast.questions.question import Needs


@dataclass(frozen=True)
class Odd:
    """The mean of every image."""

    title: ClassVar = "Means"
    needs: ClassVar = Needs.NETWORK
    columns: ClassVar = {"mean": "mean of an image"}

    def measure(self, model, x, y, *, rng):
        return {"mean": x.flatten(1).mean(1)}

    @staticmethod
    def present(answers):
        PRESENT
'''


@pytest.mark.parametrize(
    ("present", "line"),
    [
        ('raise ValueError("no chart")', "ValueError: no chart"),
        ("return [{1: 2}]", ""),
        ("raise KeyError", "KeyError"),
    ],
)
def test_a_question_that_cannot_present_its_answers_is_a_line_of_the_page(plugged, tmp_path, present, line):
    names = {"holdfast.questions": {"odd": "odd_question:Odd"}}
    plugged("holdfast-odd", {"odd_question": QUESTION.replace("PRESENT", present)}, names)
    (tmp_path / "tiny.yaml").write_text(TEXT + "analyses: [odd, gradient_norm]\n")
    good("run", "tiny.yaml", cwd=tmp_path)
    page = (tmp_path / "runs/tiny/report.html").read_text()
    assert f"The question odd of package holdfast-odd cannot present its answers: {line}" in page
    assert "Means" in page
    assert "Input-gradient norm" in page


def test_a_question_that_presents_as_an_instance_is_refused_before_training(plugged, tmp_path):
    source = QUESTION.replace("    @staticmethod\n", "").replace("present(answers)", "present(self, answers)")
    names = {"holdfast.questions": {"odd": "odd_question:Odd"}}
    plugged("holdfast-odd", {"odd_question": source.replace("PRESENT", "return []")}, names)
    (tmp_path / "tiny.yaml").write_text(TEXT + "analyses: [odd]\n")
    line = refused("run", "tiny.yaml", cwd=tmp_path)
    assert "Odd: present must accept (answers); its signature is (self, answers); make it a static method" in line
    assert not (tmp_path / "runs").exists()
