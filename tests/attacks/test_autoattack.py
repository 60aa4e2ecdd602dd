"""AutoAttack: the published budgets, exact answers where they are known, and the reference's broken set."""

import logging
import warnings

import pytest
import torch

from holdfast.attacks import APGD, EOT, FAB, AutoAttack, Square, TargetedAPGD
from holdfast.losses import cross_entropy, difference_of_logits_ratio
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf
from holdfast.types import Composed
from holdfast.wrappers import Counted
from tests.zoo import (
    digits,
    digits_cnn,
    half_space,
    half_space_distance,
    half_space_points,
    images,
    linear,
    piecewise,
    piecewise_distance,
)

KINDS = [Linf, L2, L1]


def lost(model, z, y):
    with torch.no_grad():
        return model(z).argmax(1) != y


@pytest.mark.parametrize("kind", KINDS)
def test_the_standard_version_has_the_published_attacks_and_budgets(kind):
    t = kind(0.3)
    sparse = kind is L1
    assert AutoAttack(threat=t).components() == {
        "apgd-ce": APGD(threat=t, steps=100, loss=cross_entropy, restarts=5 if sparse else 1),
        "apgd-t": TargetedAPGD(threat=t, steps=100, targets=5 if sparse else 9, restarts=1),
        "fab-t": FAB(threat=t, steps=100, targets=9, restarts=1, until_lost=True),
        "square": Square(threat=t, queries=5000, share=0.8, restarts=1),
    }
    assert list(AutoAttack(threat=t).components()) == ["apgd-ce", "apgd-t", "fab-t", "square"]
    assert isinstance(AutoAttack(threat=t), Composed)


def test_the_other_versions_have_the_published_attacks_and_budgets():
    t, dlr = L2(0.5), difference_of_logits_ratio
    plus = AutoAttack(threat=t, version="plus").components()
    assert list(plus.items()) == [
        ("apgd-ce", APGD(threat=t, steps=100, restarts=5)),
        ("apgd-dlr", APGD(threat=t, steps=100, restarts=5, loss=dlr)),
        ("fab", FAB(threat=t, steps=100, restarts=5, until_lost=True)),
        ("square", Square(threat=t, queries=5000)),
        ("apgd-t", TargetedAPGD(threat=t, steps=100, targets=9)),
        ("fab-t", FAB(threat=t, steps=100, targets=9, until_lost=True)),
    ]
    assert AutoAttack(threat=t, version="rand").components() == {
        "apgd-ce": EOT(attack=APGD(threat=t, steps=100), draws=20),
        "apgd-dlr": EOT(attack=APGD(threat=t, steps=100, loss=dlr), draws=20),
    }


def test_strange_versions_and_numbers_are_refused():
    with pytest.raises(ValueError, match="unknown version 'fast'; known: standard, plus, rand"):
        AutoAttack(threat=Linf(0.1), version="fast")
    with pytest.raises(ValueError, match="steps"):
        AutoAttack(threat=Linf(0.1), steps=0)
    with pytest.raises(ValueError, match="queries"):
        AutoAttack(threat=Linf(0.1), queries=0)


@pytest.mark.parametrize("version", ["standard", "plus", "rand"])
@pytest.mark.parametrize("kind", KINDS)
def test_breaks_a_half_space_exactly_where_that_is_possible(kind, version):
    model = half_space()
    x, y = half_space_points(model)
    distance = half_space_distance(model, x, kind.__name__.lower())
    eps = float(distance.median()) * 1.01
    attack = AutoAttack(threat=kind(eps), version=version, steps=40, queries=50)
    broken = lost(model, attack(model, x, y), y)
    if kind is L1 and version == "rand":  # FAB finds the one coordinate of the optimum, APGD alone is slow
        assert broken[distance < 0.8 * eps].all()
        assert not broken[distance > eps].any()
    else:
        assert torch.equal(broken, distance <= eps)


@pytest.mark.parametrize("kind", KINDS)
def test_breaks_a_piecewise_linear_network_where_its_exact_distance_allows_it(kind):
    model = piecewise()
    x = images(40, (2,), seed=3)
    with torch.no_grad():
        y = model(x).argmax(1)
    distance = piecewise_distance(model, x, y, kind.__name__.lower())
    eps = float(distance.median())
    broken = lost(model, AutoAttack(threat=kind(eps), steps=50, queries=200)(model, x, y), y)
    assert not broken[distance > eps * (1 + 1e-9)].any()
    assert broken[distance < 0.99 * eps].all()


@pytest.mark.parametrize("kind", KINDS)
def test_breaks_what_its_components_break_together(kind):
    model, (x, y) = digits_cnn(), digits()
    x, y = x[:25], y[:25]
    attack = AutoAttack(threat=kind({Linf: 0.06, L2: 0.45, L1: 1.0}[kind]), steps=10, targets=3, queries=100)
    z = attack(model, x, y, rng=Streams(7, "test", 25))
    together = lost(model, x, y)
    for name, part in attack.components().items():
        together |= lost(model, part(model, x, y, rng=Streams(7, "test", 25).split(name)), y)
    assert torch.equal(lost(model, z, y), together)
    assert 0 < together.sum() < 25
    assert torch.equal(z[~together], x[~together])


def test_nobody_is_asked_about_an_example_that_has_fallen():
    model = half_space()
    x, y = half_space_points(model)
    counts = torch.zeros(len(x), dtype=torch.int64)
    wrong = y.clone()
    wrong[:5] = 1 - wrong[:5]
    attack = AutoAttack(threat=Linf(1e-6), steps=5, targets=1, queries=30)
    attack(Counted(model, counts), x, wrong)
    assert counts[:5].tolist() == [1] * 5
    assert (counts[5:] > 30 + 2 * 5).all()


@pytest.mark.parametrize("classes", [2, 3, 4, 100])
@pytest.mark.parametrize("version", ["standard", "plus", "rand"])
def test_any_number_of_classes_will_do(classes, version):
    model, x = linear(classes), images(6)
    with torch.no_grad():
        y = model(x).argmax(1)
    attack = AutoAttack(threat=Linf(0.5), version=version, steps=5, queries=20)
    z = attack(model, x, y)
    assert lost(model, z, y).all()  # half of the cube's width is more than any linear model stands
    assert attack.threat.distance(z, x).max() <= 0.5 + 1e-9


def test_a_target_is_the_only_class_that_counts():
    model, x = linear(4), images(8, low=0.3, high=0.7)
    with torch.no_grad():
        y = model(x).argmax(1)
    target = (y + 1) % 4
    z = AutoAttack(threat=Linf(0.4), steps=20, queries=50)(model, x, y, target=target)
    with torch.no_grad():
        reached = model(z).argmax(1) == target
    assert reached.sum() >= 6
    assert torch.equal(z[~reached], x[~reached])


@pytest.mark.parametrize(
    ("kind", "eps"),
    [(Linf, 0.06), pytest.param(L2, 0.4, marks=pytest.mark.slow), pytest.param(L1, 1.0, marks=pytest.mark.slow)],
)
def test_breaks_the_examples_that_the_reference_implementation_breaks(kind, eps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = pytest.importorskip("pyautoattack")
    logging.getLogger("auto-attack").setLevel(logging.ERROR)
    model, (x, y) = digits_cnn(), digits()
    x, y = x[:100], y[:100]
    peer = reference.AutoAttack(model, norm=kind.__name__, eps=eps, seed=0)
    for part in (peer.apgd, peer.apgd_targeted, peer.fab):
        part.n_iter = 20
    peer.square.n_queries = 200
    with torch.random.fork_rng():
        theirs = lost(model, peer.run_standard_evaluation(x, y)[0], y)
    ours = lost(model, AutoAttack(threat=kind(eps), steps=20, queries=200)(model, x, y), y)
    assert ours.sum() >= theirs.sum() - int(kind is L1)  # a short search in l1 depends on its random start
    assert (ours != theirs).sum() <= 1 + int(kind is L1)
    assert 10 < ours.sum() < 90
