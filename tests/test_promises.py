"""Whoever breaks the protocol of a family hears which part is missing."""

import re
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

import holdfast
from holdfast.attacks import PGD, Transfer
from holdfast.attacks.schedule import StepSchedule
from holdfast.certify import Margin
from holdfast.checks import Check
from holdfast.corruptions import GaussianNoise
from holdfast.data import Source
from holdfast.errors import CheckpointError, RecipeError
from holdfast.losses import cross_entropy
from holdfast.models import Architecture
from holdfast.models.mlp import MLP
from holdfast.objectives import Standard
from holdfast.promises import (
    broken_promise,
    require_attack,
    require_certifier,
    require_check,
    require_objective,
    require_protocol,
)
from holdfast.questions import Question
from holdfast.questions.gradient_norm import GradientNorm
from holdfast.recipe.schema import FAMILIES
from holdfast.threat import Linf
from holdfast.types import Attack, Augmentation, Certifier, Corruption, Loss, Objective, Threat
from tests import zoo
from tests.conduct.test_runs import RECIPE, written
from tests.contracts import cheap


class Kept:
    """An attack without any base class."""

    threat = Linf(0.1)

    def __call__(self, model, x, y, *, target=None, rng=None):
        return x


class NoThreat:
    def __call__(self, model, x, y, *, target=None, rng=None):
        return x


class NoRng:
    threat = Linf(0.1)

    def __call__(self, model, x, y, *, target=None):
        return x


class NoTarget:
    threat = Linf(0.1)

    def __call__(self, model, x, y, *, rng=None):
        return x


class NoLabels:
    threat = Linf(0.1)

    def __call__(self, model, x, *, target=None, rng=None):
        return x


class NoCall:
    threat = Linf(0.1)


class NoNorm:
    smoothed = False

    def __call__(self, model, x, *, rng=None):
        return None


def quiet(x):
    return x


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (NoThreat(), "expected an attack, certifier or corruption; NoThreat has no `threat`"),
        (NoRng(), "NoRng: its call does not accept `rng`"),
        (NoTarget(), "NoTarget: its call does not accept `target`"),
        (NoLabels(), "NoLabels must accept (model, x, y, target=..., rng=...); its signature is (model, x, *"),
        (NoCall(), "NoCall cannot be called"),
        (NoNorm(), "NoNorm has no `norm`"),
        (quiet, "quiet: its call does not accept `rng`"),
        (nn.Dropout(), "expected an attack, certifier or corruption; Dropout: its call does not accept `rng`"),
        (Kept, "got the class Kept; make an instance, Kept(...)"),
        (torch.zeros(1), "Tensor cannot be called"),
    ],
)
def test_checks_hear_what_is_missing(value, sentence):
    with pytest.raises(RecipeError, match=re.escape(sentence)):
        require_check(value)
    x, y = zoo.images(3), zoo.labels(3, 2)
    with pytest.raises(RecipeError, match=r"checks\[1\]: .*" + re.escape(sentence)):
        holdfast.evaluate(zoo.linear(2), x, y, checks=["clean", value])
    with pytest.raises(RecipeError, match=r"checks.1: .*" + re.escape(sentence)):
        list(holdfast.run({**RECIPE, "checks": ["clean", value]}))


@pytest.mark.parametrize(
    ("protocol", "value"),
    [
        (Attack, PGD(threat=Linf(0.1))),
        (Attack, Kept()),
        (Certifier, Margin()),
        (Corruption, GaussianNoise(0.1)),
        (Corruption, lambda x, **more: x),
        (Loss, cross_entropy),
        (Objective, Standard()),
        (Threat, Linf(0.1)),
        (Check, Transfer(attack=PGD(threat=Linf(0.1)), source="run")),
        (Check, Kept()),
        (None, Margin()),
    ],
)
def test_who_satisfies_the_protocol_hears_nothing(protocol, value):
    assert broken_promise(protocol, value) is None
    assert require_protocol(protocol, value, "here") is value


def test_every_family_of_ours_satisfies_its_protocol():
    attacks = {
        name: make(Linf(0.1)) for name, make in cheap.ATTACKS.items() if "linf" not in cheap.REFUSES.get(name, ())
    }
    ready = {
        Attack: attacks, Certifier: cheap.CERTIFIERS, Corruption: cheap.CORRUPTIONS, Objective: cheap.OBJECTIVES,
        Augmentation: cheap.AUGMENTATIONS, Question: cheap.QUESTIONS, Loss: cheap.LOSSES, Threat: cheap.THREATS,
    }  # fmt: skip
    for kind, family in ready.items():
        for name, method in family.items():
            assert broken_promise(kind, method) is None, name
            assert kind in FAMILIES
    for kind in (Source, Architecture, StepSchedule):
        for name, entry in FAMILIES[kind].items():
            assert isinstance(entry, type) or broken_promise(kind, entry) is None, name


@pytest.mark.parametrize(
    ("require", "value", "sentence"),
    [
        (require_attack, Margin(), "attack: expected an attack; Margin has no `threat`"),
        (require_objective, quiet, "objective: expected an objective; quiet: its call does not accept `rng`"),
        (require_objective, Standard, "got the class Standard; make an instance, Standard(...)"),
        (require_certifier, Standard(), "certifier: expected a certifier; Standard has no `norm`"),
    ],
)
def test_a_family_that_is_wanted_is_named(require, value, sentence):
    with pytest.raises(RecipeError, match=re.escape(sentence)):
        require(value)


def test_objects_in_a_recipe_that_was_made_in_python_are_looked_at_too(tmp_path):
    (recipe,) = holdfast.load_recipes(written(RECIPE, tmp_path) / "tiny.yaml")
    lacking = replace(recipe, checks=(*recipe.checks, NoThreat()))
    with pytest.raises(RecipeError, match=r"tiny/seed-0: checks\[2\]: .*NoThreat has no `threat`"):
        next(holdfast.run(lacking, out=tmp_path))
    lacking = replace(recipe, train=replace(recipe.train, objective=quiet))
    with pytest.raises(
        RecipeError, match=r"train.objective: expected an objective; quiet: its call does not accept `rng`"
    ):
        next(holdfast.run(lacking, out=tmp_path))


@dataclass(frozen=True)
class Flat:
    """An architecture of the user."""

    width: int = 3

    def __call__(self, shape, classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, self.width), nn.Linear(self.width, classes))


def test_an_architecture_in_a_recipe_in_python_is_an_object(tmp_path):
    recipe = {**RECIPE, "model": Flat(), "checks": ["clean"]}
    list(holdfast.run(recipe, out=tmp_path))
    list(holdfast.run(recipe, out=tmp_path))  # it goes on
    assert set(holdfast.load_run(tmp_path / "tiny/seed-0").ledger["check"]) == {"clean"}
    with pytest.raises(CheckpointError, match=r"calls tests\.test_promises:Flat"):
        holdfast.load_model(tmp_path / "tiny/seed-0")
    assert holdfast.load_model(tmp_path / "tiny/seed-0", trust=True).model[1].out_features == 3


def test_a_network_in_the_place_of_an_architecture_is_one_line(tmp_path):
    (read,) = holdfast.load_recipes(written(RECIPE, tmp_path) / "tiny.yaml")
    sentence = "model: expected an architecture, which makes a network; got a network; train it with holdfast.fit"
    for recipe in ({**RECIPE, "model": nn.Flatten()}, replace(read, model=nn.Flatten())):
        with pytest.raises(RecipeError, match=sentence):
            next(holdfast.run(recipe, out=tmp_path))


@dataclass(frozen=True, kw_only=True)
class Doubled:
    """An objective of the user, with an object that no file can keep."""

    tool: object

    def __call__(self, model, x, y, *, rng=None):
        return Standard()(model, x, y, rng=rng)


def test_a_recipe_in_python_may_hold_objects(tmp_path):
    train = {**RECIPE["train"], "objective": Doubled(tool=object()), "epochs": 1}
    checks = ["clean", PGD(threat=Linf(0.05), steps=2), Kept(), lambda x, *, rng=None: 1 - x]
    recipe = {**RECIPE, "train": train, "checks": checks, "model": MLP(hidden=(8,)), "analyses": [GradientNorm()]}
    *_, report = holdfast.run(recipe, out=tmp_path)
    assert report.path.exists()
    run = holdfast.load_run(tmp_path / "tiny/seed-0")
    assert {"clean", "pgd linf eps=0.05 steps=2", "Kept", "<lambda>"} == set(run.ledger["check"])
    rows = len(run.ledger)
    list(holdfast.run(recipe, out=tmp_path))  # it goes on
    assert len(run.ledger) == rows
