"""Objects back to plain values: what is written is read as the same object, and labels tell checks apart."""

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from holdfast import files
from holdfast.attacks import FMN, PGD, TransferLoop
from holdfast.attacks.schedule import cosine
from holdfast.attacks.stages import LinBP, Momentum, Variance
from holdfast.attacks.transfer_loop import MI, MI_TRANSFERATTACK, VMI
from holdfast.checks import CHECKS, Check
from holdfast.corruptions import GaussianNoise
from holdfast.errors import RecipeError
from holdfast.losses import difference_of_logits_ratio
from holdfast.models import Architecture
from holdfast.presets import PRESETS
from holdfast.recipe import Recipe, describe, load_recipes, parse, plain, to_yaml
from holdfast.recipe.schema import FAMILIES, hints_of
from holdfast.runs import Run
from holdfast.threat import L0, L2, Linf

FLOATS = st.sampled_from([1e-5, 0.01, 0.1, 1 / 3, 8 / 255, 0.5, 0.999, 2.0, 3.0]) | st.floats(1e-6, 3.0)
TEXTS = st.sampled_from(["a", "b.npz", "crop", "stretch", "letters"])


def values(kind, depth):
    """Plain values that a field of type `kind` might be given; many are refused, which `objects` allows for."""
    if kind in FAMILIES:
        return st.sampled_from(sorted(FAMILIES[kind])).flatmap(lambda name: entries(kind, name, depth - 1))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        inner = values(next(a for a in arguments if a is not type(None)), depth)
        return None if inner is None else st.none() | inner
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values(arguments[0], depth), min_size=1, max_size=3)
    if origin is Mapping:
        inner = values(arguments[1], depth)
        return None if inner is None else st.dictionaries(TEXTS, inner, min_size=1, max_size=2)
    if origin is tuple:
        return st.tuples(*[values(a, depth) for a in arguments]).map(list)
    return {float: FLOATS, int: st.integers(1, 4), bool: st.booleans(), str: TEXTS}.get(kind)


def foreign(name, attack, options):
    """An attack of another library, whose name and options must be known there."""
    threat = FLOATS.map(lambda eps: {"linf": eps})
    free = {"options": st.fixed_dictionaries({}, optional=options), "together": st.integers(1, 4)}
    said = st.fixed_dictionaries({"attack": st.just(attack), "threat": threat}, optional=free)
    return said.map(lambda fields: {name: fields})


FOREIGN = {
    "foolbox": foreign("foolbox", "LinfPGD", {"steps": st.integers(1, 4), "rel_stepsize": FLOATS}),
    "torchattacks": foreign("torchattacks", "PGD", {"alpha": FLOATS, "random_start": st.booleans()}),
    "art": foreign("art", "ProjectedGradientDescent", {"eps_step": FLOATS, "max_iter": st.integers(1, 4)}),
}


def entries(kind, name, depth):
    """A name of a family with some of its fields said."""
    if name in FOREIGN:
        return FOREIGN[name]
    entry = FAMILIES[kind][name]
    made = entry if isinstance(entry, type) else type(entry)
    if not dataclasses.is_dataclass(made):
        return st.just(name)
    hints = hints_of(made)
    needed, free = {}, {}
    for f in dataclasses.fields(made):
        said = values(hints[f.name], depth) if depth > 0 or f.default is dataclasses.MISSING else None
        if said is not None:
            required = f.default is f.default_factory is dataclasses.MISSING and isinstance(entry, type)
            (needed if required else free)[f.name] = said
    return st.fixed_dictionaries(needed, optional=free).map(lambda fields: {name: fields})


def built(data, kind, name):
    said = data.draw(entries(kind, name, 2))
    try:  # not inside a strategy: other libraries, imported here, may use the random module
        return parse(kind, said)
    except RecipeError:
        assume(False)


NAMES = [(kind, name) for kind, family in FAMILIES.items() for name in family]


@pytest.mark.parametrize(("kind", "name"), NAMES, ids=[name for _, name in NAMES])
@given(data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_every_method_of_every_family_is_read_back_equal(kind, name, data):
    made = built(data, kind, name)
    assert parse(kind, plain(made, kind)) == made
    assert parse(kind, yaml.safe_load(to_yaml(made, kind))) == made
    assert parse(kind, json.loads(json.dumps(plain(made, kind)))) == made


@pytest.mark.parametrize("file", sorted(Path("recipes").glob("*.yaml")), ids=lambda file: file.name)
def test_recipes_are_read_back_equal(file):
    for recipe in load_recipes(file):
        assert parse(Recipe, yaml.safe_load(to_yaml(recipe, Recipe))) == recipe


@given(st.sampled_from(sorted(CHECKS)), st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_different_checks_have_different_labels_and_fields(name, data):
    first, second = built(data, Check, name), built(data, Check, name)
    (method, label, params), (other_method, other_label, other_params) = describe(first, Check), describe(second, Check)
    if isinstance(CHECKS[name], type):  # a changed prototype is called after the one that is nearest to it
        assert method == other_method == name
    assert (first == second) == (label == other_label) == (params == other_params)


@pytest.mark.parametrize("preset", PRESETS)
def test_labels_of_a_preset_are_unique(preset):
    labels = [describe(check, Check)[1] for check in PRESETS[preset]()]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(
    ("check", "label"),
    [
        (PGD(threat=Linf(8 / 255), steps=20), "pgd linf eps=8/255 steps=20"),
        (PGD(threat=Linf(8 / 255), schedule=cosine), "pgd linf eps=8/255 schedule=cosine"),
        (FMN(threat=L0(20)), "fmn l0 eps=20"),
        (PGD(threat=L2(0.5), loss=difference_of_logits_ratio), "pgd l2 eps=0.5 loss=difference_of_logits_ratio"),
        (replace(VMI, threat=L2(0.5)), "vmi l2 eps=0.5"),
        (replace(MI, steps=40, step_size=2 / 255), "mi linf eps=8/255 steps=40 step_size=2/255"),
        (
            replace(MI_TRANSFERATTACK, loss=difference_of_logits_ratio),
            "mi_transferattack linf eps=16/255 loss=difference_of_logits_ratio",
        ),
        (
            TransferLoop(threat=Linf(0.1), stages=(Variance(), Momentum(decay=0.9))),
            "transfer_loop linf eps=0.1 variance + momentum decay=0.9",
        ),
        (
            TransferLoop(threat=Linf(4 / 255), steps=1, length=1.0, stages=(LinBP(rescale=False),)),
            "transfer_loop linf eps=4/255 steps=1 length=1 linbp rescale=False",
        ),
        (GaussianNoise(0.1), "gaussian_noise sigma=0.1"),
        (GaussianNoise(0.1234567), "gaussian_noise sigma=0.1234567"),
        (GaussianNoise(8.0000001 / 255), f"gaussian_noise sigma={8.0000001 / 255!r}"),
        (GaussianNoise(variance=1e-7), "gaussian_noise variance=1e-07"),
    ],
)
def test_labels_say_what_differs_from_the_defaults(check, label):
    assert describe(check, Check)[1] == label


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ""),
        ({"steps": 20, "alpha": 2 / 255}, " alpha=2/255 steps=20"),
        ({"steps": 20, "random_start": False}, " random_start=false steps=20"),
    ],
)
def test_labels_spell_options_out_in_any_order(options, words):
    label = "torchattacks attack=PGD linf eps=8/255" + words
    for said in (options, dict(reversed(options.items()))):
        check = parse(Check, {"torchattacks": {"attack": "PGD", "threat": {"linf": "8/255"}, "options": said}})
        assert describe(check, Check)[1] == label


def test_options_that_are_text_and_those_that_are_numbers_do_not_share_a_label():
    one, other = ({"python": {"factory": "a:b", "options": {"size": size}}} for size in (3, "3"))
    assert describe(parse(Architecture, one), Architecture)[1] != describe(parse(Architecture, other), Architecture)[1]


def test_close_numbers_do_not_share_a_label():
    assert describe(GaussianNoise(0.1000001), Check)[1] != describe(GaussianNoise(0.1), Check)[1]


def test_methods_that_no_family_knows_go_by_their_own_name():
    def darker(x, *, rng=None):
        return x / 2

    @dataclasses.dataclass(frozen=True)
    class Shift:
        by: float = 0.5

    assert describe(darker, Check)[:2] == ("darker", "darker")
    assert describe(Shift(0.25), Check) == ("Shift", "Shift by=0.25", '{"by": 0.25}')


def test_an_attack_that_no_recipe_knows_is_described_with_its_threat():
    class Mine:
        threat = Linf(0.1)

        def __repr__(self):
            return "Mine()"

    assert describe(Mine(), Check) == ("Mine", "Mine", '{"repr": "Mine()", "threat": {"linf": {"eps": 0.1}}}')


def _unchanged(x, *, rng=None):
    return x


@dataclass(frozen=True)
class _Local:
    tool: "Nowhere"  # noqa: F821
    sizes: tuple[int, ...] = (1, 2)

    def __call__(self, x, *, rng=None):
        return x


def test_a_method_without_a_name_is_written_by_its_place_and_what_its_fields_print():
    place = f"{__name__}:_Local"
    assert plain(_unchanged, Check) == {"python": {"at": f"{__name__}:_unchanged"}}
    assert plain(_Local(Fraction(1, 2)), Check) == {"python": {"at": place, "tool": "Fraction(1, 2)", "sizes": [1, 2]}}


class Own:
    """An objective that is no dataclass."""

    def __init__(self, weight):
        self.weight, self.inner = weight, [object()]

    def __call__(self, model, x, y, *, rng=None):
        raise NotImplementedError


def test_objects_that_are_no_dataclasses_are_told_apart_by_their_attributes(tmp_path):
    (recipe,) = load_recipes(Path(__file__).parents[2] / "recipes" / "digits.yaml")[:1]
    runs = [
        dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, objective=Own(weight)))
        for weight in (1.0, 1.0, 9.0)
    ]
    stated = plain(runs[0], Recipe)["train"]["objective"]["python"]
    assert stated == {"at": f"{__name__}:Own", "weight": 1.0, "inner": ["<object object>"]}
    odd = dataclasses.replace(recipe.train, objective=Own(np.float64(1.0)))
    assert to_yaml(odd, type(odd)) == to_yaml(runs[0].train, type(odd))
    run = Run(tmp_path)
    run.claim(runs[0])
    files.write_checked(run.state, b"begun")
    run.claim(runs[1])
    with pytest.raises(RecipeError, match=r"differs in train\.objective"):
        run.claim(runs[2])
