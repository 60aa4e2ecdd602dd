import pytest
import torch

from holdfast.attacks import BIM, PGD
from holdfast.rng import Streams
from holdfast.threat import L2, Linf
from holdfast.wrappers import Counted
from tests.zoo import THREAT_KINDS, half_space, half_space_points_at, images, labels, linear, smooth


@pytest.mark.parametrize("kind", THREAT_KINDS)
def test_succeeds_exactly_when_the_budget_exceeds_the_distance(kind):
    model, distance = half_space(), 0.03
    x, y = half_space_points_at(model, distance, kind)
    for times in (0.99, 1.01):
        z = BIM(threat=THREAT_KINDS[kind](times * distance), steps=40)(model, x, y)
        right = model(z).argmax(1) == y
        assert bool(right.all()) if times < 1 else not right.any()


def test_starts_at_the_image_and_draws_nothing():
    model, x, y = smooth(), images(6), labels(6, 5)
    attack = BIM(threat=L2(0.3), steps=4, step_size=0.1)
    first, second = (attack(model, x, y, rng=Streams(seed, "", 6)) for seed in (0, 1))
    assert torch.equal(first, second)
    assert torch.equal(first, PGD(threat=L2(0.3), steps=4, step_size=0.1, random_start=False)(model, x, y))
    asked = []
    attack(lambda z: (asked.append(z.detach().clone()), model(z))[1], x, y)
    assert torch.equal(asked[0], x)


def test_a_gradient_per_step_and_a_last_look():
    model, x = linear(3), images(5)
    counts = torch.zeros(5, dtype=torch.int64)
    BIM(threat=Linf(1e-4), steps=6)(Counted(model, counts), x, model(x).argmax(1))
    assert counts.tolist() == [7] * 5


def test_impossible_fields_are_refused_when_it_is_made():
    with pytest.raises(ValueError, match="step_size must be positive"):
        BIM(threat=Linf(0.1), step_size=0.0)
    with pytest.raises(ValueError, match="at least 1"):
        BIM(threat=Linf(0.1), steps=0)
