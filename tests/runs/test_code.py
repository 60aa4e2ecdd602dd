"""What is shown and remembered as the code of a recipe is what an import would run."""

import sys
from importlib.machinery import EXTENSION_SUFFIXES

import pytest

from holdfast.recipe import parse_recipes
from holdfast.runs import code_of, fingerprints
from tests.training.tiny import TEXT


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory, and a directory of installed packages before it."""
    here, installed = tmp_path / "here", tmp_path / "installed"
    for directory in (here, installed):
        directory.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", [str(installed), *sys.path])
    return tmp_path


def write(place, *names):
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("def make(): ...\n")


def recipes_with(module):
    return parse_recipes(f"{TEXT}checks: [{{python: {{at: '{module}:make'}}}}]")


COMPILED = f"here/nets{EXTENSION_SUFFIXES[0]}"


@pytest.mark.parametrize(
    ("files", "module", "imported"),
    [
        (["here/nets.py", COMPILED], "nets", COMPILED),
        (["here/nets.py", "here/nets/__init__.py"], "nets", "here/nets/__init__.py"),
        (["installed/nets/__init__.py", "here/nets/small.py"], "nets.small", None),
        (["installed/nets.py", "here/nets/small.py"], "nets.small", None),
        (["installed/nets/odd/large.py", "here/nets/odd/small.py"], "nets.odd.small", "here/nets/odd/small.py"),
        (["installed/nets/small.py", "here/nets.py"], "nets", "here/nets.py"),
        (["here/nets.pyc"], "nets", "here/nets.pyc"),
        ([], "nets", None),
        (["here/nets.py"], ".nets", None),
    ],
)
def test_the_file_is_the_one_that_an_import_takes(place, files, module, imported):
    write(place, *files)
    (file,) = code_of(recipes_with(module)).values()
    assert file == (None if imported is None else place / imported)
    assert "nets" not in sys.modules


@pytest.mark.parametrize("changed", ["here/nets/__init__.py", "here/nets/odd/__init__.py", "here/nets/odd/small.py"])
def test_a_change_of_a_module_or_of_a_package_around_it_is_another_code(place, changed):
    write(place, "here/nets/__init__.py", "here/nets/odd/__init__.py", "here/nets/odd/small.py", "here/nets/small.py")
    before = fingerprints(recipes_with("nets.odd.small"))
    (place / "here/nets/small.py").write_text("# not imported\n")
    assert fingerprints(recipes_with("nets.odd.small")) == before
    (place / changed).write_text("# changed\n")
    assert fingerprints(recipes_with("nets.odd.small")) != before


def test_a_change_of_a_compiled_module_is_another_code(place):
    write(place, "here/nets.py", COMPILED)
    before = fingerprints(recipes_with("nets"))
    (place / COMPILED).write_text("changed")
    assert fingerprints(recipes_with("nets")) != before
