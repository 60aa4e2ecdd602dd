"""Code that a file names runs only when the user says so, and trust is never read from a file."""

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import RecipeError
from holdfast.models import read_metadata, read_state, write_weights
from holdfast.models.external import Python
from holdfast.recipe import Recipe, parse_recipes, to_yaml
from holdfast.runs import call_of, code_of, fingerprints
from holdfast.runs.code import require_trust
from tests.end_to_end.command import good, holdfast, refused
from tests.tampering import put
from tests.training.tiny import TEXT

CODE = """
import pathlib

from torch import nn

pathlib.Path("ran").touch()


def make(**options):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""
HOSTILE = {"python": {"factory": "theirs:make"}}


@pytest.fixture
def place(tmp_path):
    (tmp_path / "theirs.py").write_text(CODE)
    (tmp_path / "tiny.yaml").write_text(TEXT)
    text = TEXT.replace("{mlp: {hidden: [8]}}", "{python: 'theirs:make'}").replace("name: tiny", "name: named")
    (tmp_path / "named.yaml").write_text(text)
    yield tmp_path
    sys.modules.pop("theirs", None)


def ran(place):
    sys.modules.pop("theirs", None)
    done = (place / "ran").exists()
    (place / "ran").unlink(missing_ok=True)
    return done


@pytest.mark.parametrize("verb", ["run", "train"])
def test_a_recipe_that_names_code_is_asked_about_once(place, verb):
    line = refused(verb, "named.yaml", cwd=place)
    assert "named.yaml: expected --trust, since this recipe runs code that could do anything: theirs:make (" in line
    assert "theirs.py)" in line
    assert not ran(place)
    assert not (place / "runs").exists()
    good(verb, "named.yaml", "--trust", cwd=place)
    assert ran(place)
    good(verb, "named.yaml", cwd=place)  # it is remembered
    assert ran(place)
    assert "expected --trust" in refused(verb, "named.yaml", "--set", "train.epochs=7", cwd=place)
    with (place / "theirs.py").open("a") as file:
        file.write("\n# changed\n")
    assert "expected --trust" in refused(verb, "named.yaml", cwd=place)
    assert not ran(place)


def test_what_is_shown_is_what_would_be_imported(place, monkeypatch):
    monkeypatch.chdir(place)
    (place / "subprocess.py").write_text("# a decoy: the working directory comes last\n")
    (place / "nets").mkdir()
    for name in ("nets.py", "nets/__init__.py"):  # the package comes first
        (place / name).write_text("def make(): ...\n")
    recipes = {name: parse_recipes(TEXT.replace("{mlp: {hidden: [8]}}", f"{{python: '{name}'}}")) for name in NAMES}
    files = {name: code_of(recipes[name])[name] for name in NAMES}
    assert files["subprocess:getoutput"] == Path(subprocess.__file__)
    assert files["nets:make"] == place / "nets/__init__.py"
    before = fingerprints(recipes["nets:make"])
    (place / "nets/__init__.py").write_text("def make(): return 1\n")
    assert fingerprints(recipes["nets:make"]) != before


NAMES = ("subprocess:getoutput", "nets:make")


def test_some_variants_of_a_trusted_recipe_are_trusted(place):
    text = (
        TEXT.replace("{mlp: {hidden: [8]}}", "{python: 'theirs:make'}") + "variants: {a: {}, b: {train: {epochs: 1}}}\n"
    )
    (place / "both.yaml").write_text(text)
    good("train", "both.yaml", "--trust", cwd=place)
    assert ran(place)
    good("train", "both.yaml", "--only", "b", cwd=place)
    assert ran(place)


def test_a_search_asks_too_and_so_do_its_workers(place):
    text = (place / "named.yaml").read_text().replace("lr: 0.1", "lr: {search: log, low: 0.01, high: 0.1}")
    (place / "search.yaml").write_text(text + "search: {trials: 1}\n")
    assert "expected --trust" in refused("search", "search.yaml", cwd=place)
    assert not ran(place)
    assert good("search", "search.yaml", "--trust", cwd=place)
    assert ran(place)


def rename_options(place, run, options):
    """Let the weights of a run name their factory with other options, with checksums that fit."""
    for label in ("best", "last"):
        file = place / run / f"{label}.safetensors"
        metadata = read_metadata(file)
        (recipe,) = parse_recipes(metadata["recipe"])
        other = to_yaml(replace(recipe, model=replace(recipe.model, options=options)), Recipe)
        write_weights(file, read_state(file), {**metadata, "recipe": other})


@pytest.mark.parametrize("inside", ["transfer", "composite"])
def test_other_options_in_the_weights_of_another_run_are_asked_about_again(place, inside):
    good("train", "named.yaml", "--trust", cwd=place)
    good("train", "tiny.yaml", cwd=place)
    text = TEXT.replace("name: tiny", "name: taking")
    if inside == "transfer":
        text += "checks: [{transfer: {attack: {fgsm: {threat: {linf: 0.1}}}, source: runs/named/seed-0}}]\n"
    else:
        both = "{standard: runs/tiny/seed-0, robust: runs/named/seed-0, mixing: probability, strength: 2}"
        text = text.replace("{mlp: {hidden: [8]}}", f"{{composite: {both}}}")
    (place / "taking.yaml").write_text(text)
    good("run", "taking.yaml", "--trust", "--out", "a", cwd=place)
    assert ran(place)
    good("run", "taking.yaml", "--out", "b", cwd=place)  # it is remembered
    assert ran(place)
    rename_options(place, "runs/named/seed-0", {"path": "/etc/passwd"})
    for out in ("b", "c"):
        line = refused("run", "taking.yaml", "--out", out, cwd=place)
        assert (
            'expected --trust, since this recipe runs code that could do anything: theirs:make {"path": "/etc/' in line
        )
        assert 'theirs:make {"path": "/etc/passwd"} (' in good("show", "taking.yaml", cwd=place)
        assert not ran(place)


def test_trust_tells_options_apart():
    one, other = Python(factory="m:f", options={"a": 1, "b": [2]}), Python(factory="m:f", options={"a": 2, "b": [2]})
    assert call_of(one) == 'm:f {"a": 1, "b": [2]}'
    trust = frozenset([call_of(one)])
    require_trust(one, "here", trust=trust)
    require_trust(replace(one, options={"b": [2], "a": 1}), "here", trust=trust)
    for stranger in (other, replace(one, options={}), replace(one, options={"a": "1", "b": [2]})):
        with pytest.raises(RecipeError, match=r"here: calls m:f.*allow it with --trust"):
            require_trust(stranger, "here", trust=trust)
    assert call_of(replace(one, options={"a": {1: 2}})) != call_of(replace(one, options={"a": {"1": 2}}))


def test_a_search_may_draw_options_of_a_trusted_factory(place):
    options = "{width: {search: int, low: 1, high: 9}}"
    text = TEXT.replace("{mlp: {hidden: [8]}}", f"{{python: {{factory: 'theirs:make', options: {options}}}}}")
    (place / "search.yaml").write_text(text + "search: {trials: 3, sampler: random, pruner: none}\n")
    assert "expected --trust" in refused("search", "search.yaml", cwd=place)
    good("search", "search.yaml", "--trust", cwd=place)
    assert ran(place)


def test_show_lists_the_code_without_running_it(place):
    text = good("show", "named.yaml", cwd=place)
    assert text.startswith("# Code that it would run, with --trust: theirs:make (")
    assert parse_recipes(text)[0].model == Python(factory="theirs:make")
    done = holdfast("show", "named.yaml", "--json", cwd=place)
    assert json.loads(done.out)[0]["model"]["python"]["factory"] == "theirs:make"
    assert "theirs:make" in done.err
    assert "Code that it would run" not in good("show", "tiny.yaml", cwd=place)
    assert not ran(place)


@pytest.mark.parametrize("fields", ["trust: true", "transfer: {source: elsewhere, trust: true}"])
def test_a_weights_file_cannot_trust_itself(place, fields):
    good("train", "tiny.yaml", cwd=place)
    file = place / "runs/tiny/seed-0/last.safetensors"
    metadata = read_metadata(file)
    (recipe,) = parse_recipes(metadata["recipe"])
    hostile = to_yaml(replace(recipe, model=Python(factory="theirs:make")), Recipe)
    for label in ("best", "last"):
        file = place / f"runs/tiny/seed-0/{label}.safetensors"
        extra = {"trust": "true", "transfer": json.dumps({"source": "runs/tiny/seed-0", "trust": True})}
        write_weights(file, read_state(file), {**metadata, "recipe": hostile, **extra})
    assert "calls theirs:make, which could do anything" in refused("evaluate", "runs/tiny/seed-0", cwd=place)
    checks = f"[{{transfer: {{attack: {{fgsm: {{threat: {{linf: 0.1}}}}}}, source: runs/tiny/seed-0, {fields}}}}}]"
    refused("evaluate", "runs/tiny/seed-0", "--checks", checks, cwd=place)
    assert not ran(place)


@pytest.mark.parametrize("verb", ["run", "train"])
def test_repeating_a_recipe_calls_nothing_that_weights_in_its_directory_name(place, verb):
    good(verb, "tiny.yaml", cwd=place)
    for label in ("best", "last"):
        file = place / f"runs/tiny/seed-0/{label}.safetensors"
        metadata = read_metadata(file)
        (recipe,) = parse_recipes(metadata["recipe"])
        hostile = to_yaml(replace(recipe, model=Python(factory="theirs:make")), Recipe)
        write_weights(file, read_state(file), {**metadata, "recipe": hostile})
    info = place / "runs/tiny/seed-0/run.json"
    put(info, json.dumps({key: value for key, value in json.loads(info.read_text()).items() if key != "weights"}))
    for trust in ([], ["--trust"]):
        line = refused("run", "tiny.yaml", *trust, cwd=place)
        assert "expected weights of the network of the recipe, got those of another" in line
        assert not ran(place)


def test_no_file_in_the_working_directory_stands_in_for_pythons_own(tmp_path):
    needed = subprocess.run(
        [sys.executable, "-c", "import runpy, sys; print(*sys.modules)"], capture_output=True, text=True
    )
    loaded = {name.partition(".")[0] for name in needed.stdout.split()}  # by `python -m` itself
    for name in {"__future__", "numpy", "torch", "typer", *sys.stdlib_module_names} - loaded:
        if importlib.util.find_spec(name) is not None:
            (tmp_path / f"{name}.py").write_text("raise SystemExit('taken from the working directory')\n")
    assert (tmp_path / "queue.py").exists()
    (tmp_path / "theirs.py").write_text(CODE.replace("import pathlib", "import pathlib, queue, zipfile"))
    (tmp_path / "named.yaml").write_text(TEXT.replace("{mlp: {hidden: [8]}}", "{python: 'theirs:make'}"))
    for argv in (["--version"], ["train", "named.yaml", "--trust"]):
        command = [sys.executable, "-m", "holdfast", *argv]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    assert Path(tmp_path / "ran").exists()


def test_where_trust_cannot_be_remembered_it_is_asked_for_again(place, monkeypatch):
    (place / "state").write_text("a file")
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    done = holdfast("train", "named.yaml", "--trust", "--json", cwd=place)
    assert (done.code, "cannot remember --trust" in done.err) == (0, True)
    assert "expected --trust" in refused("train", "named.yaml", cwd=place)
