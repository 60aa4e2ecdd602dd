"""An adversary who attacks another mixture than the one that is judged."""

import copy
import math

import pytest
import torch

from holdfast.attacks import APGD, PGD, Aimed
from holdfast.ensembles import Composite, GradientRatio
from holdfast.models.network import Normalised
from holdfast.rng import Streams
from holdfast.threat import Linf
from holdfast.wrappers import Counted, ExpectedOverRandomness
from tests.zoo import digits, digits_mlp, digits_robust, half_space, half_space_points

ATTACK = PGD(threat=Linf(0.15), steps=5, random_start=False, until_lost=False)


def batch(count=20):
    x, y = digits()
    return x[:count], y[:count]


def composite(strength=2.0):
    return Composite(copy.deepcopy(digits_mlp()), copy.deepcopy(digits_robust()), GradientRatio(), strength)


@pytest.mark.parametrize(("strength", "part"), [(0.0, "standard"), (math.inf, "robust")])
def test_at_the_ends_it_attacks_one_of_the_two(strength, part):
    model, (x, y) = composite(), batch()
    assert torch.equal(Aimed(attack=ATTACK, strength=strength)(model, x, y), ATTACK(getattr(model, part), x, y))


def test_at_the_strength_of_the_mixture_it_attacks_the_mixture():
    model, (x, y) = composite(), batch(6)
    assert torch.equal(Aimed(attack=ATTACK, strength=2.0)(model, x, y), ATTACK(model, x, y))
    assert not torch.equal(Aimed(attack=ATTACK, strength=0.1)(model, x, y), ATTACK(model, x, y))


@pytest.mark.parametrize("kind", [PGD, APGD])
def test_nobody_leaves_before_the_end(kind):
    """Where the stand-in is wrong already, the highest loss is wanted: that of an attack which goes to the end."""
    model, (x, y) = composite(), batch()
    quick = kind(threat=Linf(0.15), steps=5)
    rng = Streams(0, "attack", len(x))
    found = Aimed(attack=quick, strength=0.0)(model, x, y, rng=rng)
    assert not torch.equal(found, quick(model.standard, x, y, rng=rng))


def test_queries_are_counted_as_those_of_any_attack():
    model, (x, y) = composite(), batch(4)
    counts = torch.zeros(4, dtype=torch.int64)
    Aimed(attack=ATTACK, strength=0.0)(Counted(model, counts), x, y)
    assert counts.tolist() == [6] * 4  # five gradients, and a look at the last point


@pytest.mark.parametrize("draws", [None, 1])
def test_a_composite_behind_a_normalisation_or_a_wrapper_is_aimed_at_too(draws):
    inner, (x, y) = composite(), batch()
    model = Normalised(inner, [0.0], [2.0])
    judged = model if draws is None else ExpectedOverRandomness(model, draws)
    found = Aimed(attack=ATTACK, strength=math.inf)(judged, x, y)
    assert torch.equal(found, ATTACK(Normalised(inner.robust, [0.0], [2.0]), x, y))
    assert not torch.equal(found, ATTACK(judged, x, y))


def test_other_classifiers_are_attacked_as_they_are():
    model = half_space()
    x, y = half_space_points(model, 6)
    assert torch.equal(Aimed(attack=ATTACK, strength=0.3)(model, x, y), ATTACK(model, x, y))


def test_where_the_aim_is_what_is_judged_it_is_the_attack_itself():
    """An example that is lost stays lost: the point of highest loss might be classified right."""
    model, (x, y) = composite(), batch()
    quick = PGD(threat=Linf(0.15), steps=5)
    for judged, strength in ((model, None), (model.standard, 0.3)):
        assert torch.equal(Aimed(attack=quick, strength=strength)(judged, x, y), quick(judged, x, y))


@pytest.mark.parametrize("strength", [-1.0, math.nan])
def test_what_is_no_strength_is_refused(strength):
    with pytest.raises(ValueError, match=f"strength must be a number from 0 to infinity, got {strength}"):
        Aimed(attack=ATTACK, strength=strength)


def test_an_aim_has_no_other_aim_inside():
    with pytest.raises(ValueError, match="expected an attack that aims at nothing else"):
        Aimed(attack=Aimed(attack=ATTACK, strength=0.0), strength=1.0)
