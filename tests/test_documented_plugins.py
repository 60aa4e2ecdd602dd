"""The examples of `docs/plugins.md` run, and keep the promises of their families."""

import importlib
import re
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast.attacks import PGD
from holdfast.data import checked
from holdfast.testing import check_attack, check_question
from holdfast.testing.attack import check_goes_to_its_target, check_never_worse_than_the_start
from holdfast.testing.networks import images, labels, smooth
from holdfast.threat import Linf

PAGE = (Path(__file__).parent.parent / "docs" / "plugins.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """The modules of the page that state their path, in a package that can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_package").mkdir()
    for block in BLOCKS:
        if named := re.match(r"# (my_package/\w+\.py)\n", block):
            (tmp_path / named[1]).write_text(block)
    yield lambda name: importlib.import_module(f"my_package.{name}")
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_package"]:
        del sys.modules[name]


def test_the_attack_runs_and_keeps_its_promises():
    names = {"model": smooth().float(), "x": images(4).float(), "y": labels(4, 5)}
    exec(next(block for block in BLOCKS if "class Grey" in block), names)
    check_attack(names["Grey"](), without=(check_never_worse_than_the_start, check_goes_to_its_target))


@pytest.mark.parametrize("name", ["lead", "darkness"])
def test_a_question_keeps_its_promises(modules, name):
    split = checked(images(8), labels(8, 5), tuple("abcde"), "images")
    check_question(getattr(modules(name), name.capitalize())(), smooth(), split)


def test_the_modules_of_the_questions_import_no_torch(modules):
    for name in ("lead", "darkness"):
        assert "torch" not in vars(modules(name))


def test_a_question_takes_a_default_from_the_run(modules):
    source = next(block for block in BLOCKS if "def prepared" in block)
    names = dict(vars(modules("darkness")))
    exec("from dataclasses import replace\n" + textwrap.dedent(source), names)

    class Context:
        checks = (object(), PGD(threat=Linf(0.1)), PGD(threat=Linf(0.2)))

    @names["dataclass"](frozen=True)
    class Bare:
        eps: float | None = None
        prepared = names["prepared"]

    assert dict(Bare().prepared(Context).settings) == {"eps": 0.2}
    assert Bare(0.3).prepared(Context).measurement == Bare(0.3)


def test_the_promises_of_the_page_hold(modules):
    source = next(block for block in BLOCKS if "check_question(" in block)
    names = {**vars(modules("lead")), "Linf": Linf, "Momentum": PGD}
    exec(source, names)
    names["test_the_question_keeps_its_promises"]()
