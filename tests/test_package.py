"""The package as users meet it: names, version, entry points."""

import builtins
import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import holdfast
from holdfast import __main__


@pytest.mark.parametrize("name", holdfast.__all__)
def test_every_public_name_can_be_had_and_is_documented(name):
    assert getattr(holdfast, name).__doc__


def test_the_lazy_names_are_the_public_names():
    assert sorted(name for names in holdfast._HOMES.values() for name in names) == sorted(holdfast.__all__)


def test_dir_shows_the_public_names_and_only_them():
    code = "import holdfast; print(sorted(holdfast.__all__ + ['__version__']) == dir(holdfast))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_the_version_is_that_of_the_distribution():
    assert holdfast.__version__ == importlib.metadata.version("holdfast")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'PDG'"):
        holdfast.PDG  # noqa: B018


def test_runs_as_a_module_and_says_its_version():
    done = subprocess.run([sys.executable, "-m", "holdfast", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"holdfast {importlib.metadata.version('holdfast')}\n"
    assert done.stderr == ""


def test_the_console_script_is_the_same_entry_point():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"holdfast": "holdfast.__main__:main"}


def test_an_interruption_while_it_is_imported_is_one_line(monkeypatch, capsys):
    def interrupted(name, *rest):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(builtins, "__import__", interrupted)
        try:
            __main__.main()
        except SystemExit as stopped:
            end = stopped
    assert end.code == 130
    assert capsys.readouterr() == ("", "holdfast: interrupted\n")
