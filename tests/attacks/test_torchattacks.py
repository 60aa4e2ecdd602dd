import importlib
import importlib.util
import inspect
import warnings

import pytest
import torch

from holdfast.attacks import PGD, Torchattacks
from holdfast.attacks.torchattacks import _norms
from holdfast.errors import RecipeError
from holdfast.rng import Streams
from holdfast.threat import L0, L1, L2, Linf
from tests.zoo import (
    THREAT_KINDS,
    digits,
    digits_cnn,
    half_space,
    half_space_distance,
    half_space_points,
    half_space_points_at,
    images,
    linear,
)

if importlib.util.find_spec("torchattacks") is None:
    pytest.skip("torchattacks is not installed", allow_module_level=True)


def package():
    with warnings.catch_warnings():  # it imports things that others have deprecated
        warnings.simplefilter("ignore")
        return importlib.import_module("torchattacks")


def lost(model, z, y):
    with torch.no_grad():
        return model(z).argmax(1) != y


@pytest.mark.parametrize(("name", "kind"), [("PGD", "linf"), ("PGDL2", "l2")])
def test_breaks_a_half_space_just_beyond_its_distance_and_not_before(name, kind):
    model = half_space()
    x, y = half_space_points_at(model, 0.05, kind)
    for eps, broken in ((0.0505, True), (0.0495, False)):
        attack = Torchattacks(attack=name, threat=THREAT_KINDS[kind](eps), options={"steps": 40, "alpha": 0.005})
        assert bool((lost(model, attack(model, x, y), y) == broken).all())


def test_distances_found_are_those_of_the_half_space():
    model = half_space()
    x, y = half_space_points(model, 8)
    z = Torchattacks(attack="DeepFool", threat=L2(1.0))(model, x, y)
    ratio = L2(1.0).distance(z, x) / half_space_distance(model, x, "l2")
    assert bool(lost(model, z, y).all())
    assert bool(((ratio > 0.999) & (ratio < 1.03)).all()), ratio


@pytest.mark.parametrize("name", ["PGD", "PGDL2"])
def test_from_the_image_itself_its_last_point_is_that_of_our_pgd(name):
    model, x = linear(5), images(12)
    y, threat = model(x).argmax(1), Linf(0.1) if name == "PGD" else L2(0.4)
    options = {"steps": 8, "alpha": threat.eps / 4, "random_start": False}
    theirs = Torchattacks(attack=name, threat=threat, options=options)(model, x, y)
    ours = PGD(threat=threat, steps=8, step_size=threat.eps / 4, random_start=False, until_lost=False)(model, x, y)
    assert theirs.dtype == torch.float64
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-6)  # it computes in float32


def test_leaves_as_many_digits_standing_as_our_pgd():
    model, (x, y) = digits_cnn(), digits()
    threat, x, y = Linf(0.08), x[:60], y[:60]
    attack = Torchattacks(attack="PGD", threat=threat, options={"steps": 20, "alpha": 0.01})
    theirs = lost(model, attack(model, x, y), y)
    ours = lost(model, PGD(threat=threat, steps=20, step_size=0.01)(model, x, y), y)
    assert 6 < int(ours.sum()) < 54
    assert int((theirs != ours).sum()) <= 2


@pytest.mark.parametrize(("threat", "norm"), [(Linf(0.1), "Linf"), (L2(0.4), "L2"), (L1(1.0), "L1")], ids=str)
def test_norm_budget_classes_and_seeds_are_handed_over(threat, norm, monkeypatch):
    theirs, given = package(), []

    class Spy(theirs.attack.Attack):
        def __init__(self, model, norm="Linf", eps=0.3, n_classes=10, seed=None, verbose=True):
            super().__init__("Spy", model)
            self.given = (norm, eps, n_classes, verbose, seed)

        def forward(self, x, y):
            given.append(self.given)
            return x

    monkeypatch.setattr(theirs, "FAB", Spy)
    model, x = linear(4), images(3)
    y, attack = model(x).argmax(1), Torchattacks(attack="FAB", threat=threat)
    for seed in (0, 0, 1):
        attack(model, x, y, rng=Streams(seed, "", 3))
    assert {fields[:4] for fields in given} == {(norm, threat.eps, 4, False)}
    seeds = [fields[4] for fields in given]
    assert seeds[:3] == seeds[3:6]
    assert len(set(seeds)) == 6


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.4)], ids=str)
def test_attacks_in_the_norm_of_the_threat(threat):
    model, x = linear(4), images(4)
    y = model(x).argmax(1)
    z = Torchattacks(attack="APGD", threat=threat, options={"steps": 10})(model, x, y)
    assert bool(lost(model, z, y).any())
    assert torch.allclose(threat.distance(z, x)[lost(model, z, y)], torch.tensor(threat.eps).double(), rtol=0.2)


def test_goes_to_its_target():
    model, x = linear(5), images(8)
    y, target = model(x).argmax(1), model(x).argmin(1)
    attack = Torchattacks(attack="PGD", threat=Linf(0.5), options={"steps": 40, "alpha": 0.05})
    assert torch.equal(model(attack(model, x, y, target=target)).argmax(1), target)


def test_an_attack_without_a_target_says_so():
    model, x = linear(3), images(2)
    y = model(x).argmax(1)
    attack = Torchattacks(attack="DeepFool", threat=L2(1.0))
    with pytest.raises(RecipeError, match=r"torchattacks DeepFool: .* goes to a target; this one only leaves a label"):
        attack(model, x, y, target=(y + 1) % 3)


@pytest.mark.parametrize(
    ("name", "threat", "message"),
    [
        ("PGD", L2(0.5), "PGD attacks in linf; got the threat l2"),
        ("PGDL2", Linf(0.1), "PGDL2 attacks in l2; got the threat linf"),
        ("APGD", L1(1.0), "APGD attacks in linf and l2; got the threat l1"),
        ("OnePixel", L1(1.0), "OnePixel attacks in l0; got the threat l1"),
        ("PDG", Linf(0.1), r"attack: unknown name 'PDG'; known: APGD, .*Did you mean 'PGD'\?"),
        ("MultiAttack", Linf(0.1), "attack: unknown name 'MultiAttack'"),
    ],
)
def test_refuses_other_norms_and_names(name, threat, message):
    with pytest.raises(ValueError, match=message):
        Torchattacks(attack=name, threat=threat)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"stepz": 3},
            r"options.stepz: unknown name 'stepz'; known: alpha, random_start, steps. Did you mean 'steps'\?",
        ),
        ({"eps": 0.3}, "options.eps: the adapter sets it, from threat"),
        ({"seed": 3}, "options.seed: the adapter sets it"),
    ],
)
def test_refuses_options_that_the_class_does_not_take(options, message):
    with pytest.raises(ValueError, match=message):
        Torchattacks(attack="PGD", threat=Linf(0.1), options=options)


def test_every_attack_but_noise_names_its_norm():
    torchattacks = package()
    kinds = [getattr(torchattacks, name) for name in set(torchattacks.__all__) - set(torchattacks.__wrapper__)]
    assert {kind.__name__ for kind in kinds if not _norms(kind)} == {"VANILA", "GN"}
    assert all(set(_norms(kind)) <= {0, 1, 2, float("inf")} for kind in kinds)
    with_eps = [kind for kind in kinds if {"eps", "max_epsilon"} & set(inspect.signature(kind).parameters)]
    assert len(with_eps) > 20


def test_a_distance_of_one_pixel_is_counted_in_values():
    model, x = linear(3), images(4)
    y = model(x).argmax(1)
    attack = Torchattacks(attack="OnePixel", threat=L0(1), options={"steps": 2, "popsize": 4})
    z = attack(model, x, y)
    assert bool((L0(1).distance(z, x) <= 1).all())
    assert bool((z != x).any())
