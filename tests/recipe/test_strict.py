"""Third-party methods in a recipe satisfy the protocol of their family, or one line says what is missing."""

import re
import sys

import pytest

from holdfast.checks import Check
from holdfast.errors import RecipeError
from holdfast.models.external import Python
from holdfast.optim.optimizers import Optimizer
from holdfast.optim.schedules import Schedule
from holdfast.questions.question import Question
from holdfast.recipe import parse
from holdfast.recipe.json_schema import file_schema
from holdfast.recipe.strict import _foreign_entry
from holdfast.types import Architecture, Attack, Augmentation, Certifier, Loss, Objective, Threat
from tests.plugged import plugged

__all__ = ["plugged"]

CODE = """
import dataclasses
from dataclasses import dataclass

from torch import nn

frozen = dataclass(frozen=True)


@frozen
class Nothing:
    pass


@frozen
class NoRng:
    norm = "l2"
    smoothed = False

    def __call__(self, model, x, y=None):
        return x


@frozen
class Question:
    title = "Odd"
    needs = None

    def present(self, answers):
        return []


@frozen
class Untitled:
    needs = None

    @staticmethod
    def present(answers):
        return []


@frozen
class Mute:
    title, needs = "Mute", None


@frozen
class Strict:
    steps: int = 1

    def __post_init__(self):
        if self.steps < 1:
            raise TypeError("steps: at least 1")

    def __call__(self, x, *, rng=None):
        return x


@frozen
class Flat:
    width: int = 4

    def __call__(self, shape, classes):
        return nn.Flatten()


@dataclass
class Changeable:
    def __call__(self, x, *, rng=None):
        return x


changeable = Changeable()


def reversed_loss(y):
    return y
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    (tmp_path / "theirs.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    _foreign_entry.cache_clear()
    yield
    sys.modules.pop("theirs", None)
    _foreign_entry.cache_clear()


LACKING = [
    (Attack, "Nothing", "expected an attack; Nothing cannot be called"),
    (Attack, "NoRng", "expected an attack; NoRng has no `threat`"),
    (Check, "Nothing", "expected an attack, certifier or corruption; Nothing cannot be called"),
    (Certifier, "NoRng", "expected a certifier; NoRng: its call does not accept `rng`"),
    (Objective, "NoRng", "expected an objective; NoRng: its call does not accept `rng`"),
    (Optimizer, "Nothing", "expected an optimizer; Nothing cannot be called"),
    (Schedule, "Nothing", "expected a schedule; Nothing cannot be called"),
    (Augmentation, "NoRng", "expected an augmentation; NoRng: its call does not accept `rng`"),
    (Threat, "Nothing", "expected a threat; Nothing has no `eps`"),
    (Loss, "reversed_loss", "expected a loss; reversed_loss must accept (logits, y); its signature is (y)"),
    (Architecture, "Nothing", "expected an architecture; Nothing cannot be called"),
    (Question, "Nothing", "expected a question; Nothing has no `"),
    (Question, "Untitled", "expected a question; Untitled has no `title`"),
    (Question, "Mute", "expected a question; Mute has no `present`"),
    (
        Question,
        "Question",
        "present must accept (answers); its signature is (self, answers); make it a static method",
    ),
]
GROUPS = {
    Attack: "attacks", Check: "attacks", Certifier: "certifiers", Objective: "objectives", Optimizer: "optimizers",
    Schedule: "schedules", Augmentation: "augmentations", Threat: "threats", Loss: "losses", Question: "questions",
    Architecture: "models",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "sentence"), LACKING)
def test_a_method_by_its_import_path_satisfies_the_protocol(kind, name, sentence):
    with pytest.raises(RecipeError, match=f"^python: .*{re.escape(sentence)}"):
        parse(kind, {"python": {"at": f"theirs:{name}"}}, code_allowed=True)


@pytest.mark.parametrize(("kind", "name", "sentence"), LACKING)
def test_a_method_of_a_package_satisfies_the_protocol(plugged, kind, name, sentence):
    plugged("holdfast-odd", {"odd_methods": CODE}, {f"holdfast.{GROUPS[kind]}": {"odd": f"odd_methods:{name}"}})
    with pytest.raises(RecipeError, match=f"^odd: .*{re.escape(sentence)}"):
        parse(kind, "odd")


def test_whatever_fields_are_refused_with_is_one_line():
    with pytest.raises(RecipeError, match=r"^python: TypeError: steps: at least 1$"):
        parse(Check, {"python": {"at": "theirs:Strict", "steps": 0}}, code_allowed=True)
    assert parse(Check, {"python": {"at": "theirs:Strict", "steps": 2}}, code_allowed=True).steps == 2


@pytest.mark.parametrize("name", ["Changeable", "changeable"])
def test_methods_that_may_change_are_refused(name):
    with pytest.raises(RecipeError, match=f"'theirs:{name}' is a dataclass that is not frozen"):
        parse(Check, {"python": f"theirs:{name}"}, code_allowed=True)


def test_an_architecture_is_a_factory_or_a_method():
    factory = parse(Architecture, {"python": "theirs:make"})
    assert factory == parse(Architecture, {"python": {"factory": "theirs:make"}}) == Python(factory="theirs:make")
    assert parse(Architecture, {"python": {"at": "theirs:Flat", "width": 3}}, code_allowed=True).width == 3
    choices = file_schema()["$defs"]["Architecture"]["anyOf"]
    (by_name,) = [one["properties"] for one in choices if "mlp" in one.get("properties", {})]
    required = [one.get("required") for choice in by_name["python"]["anyOf"] for one in choice["anyOf"]]
    assert {("at",), ("factory",)} <= {tuple(each or ()) for each in required}


def test_no_package_takes_the_name_of_import_paths(plugged):
    plugged("holdfast-odd", {"odd_methods": CODE}, {"holdfast.corruptions": {"python": "odd_methods:Strict"}})
    with pytest.raises(RecipeError, match="'python' is an entry point of holdfast-odd, but stands for an import path"):
        parse(Check, {"python": "theirs:Strict"}, code_allowed=True)
