import math

import pytest
import torch

from holdfast.attacks import CW, CWLinf
from holdfast.attacks.cw import Adam
from holdfast.losses import margin
from holdfast.threat import L2, Linf
from holdfast.wrappers import Counted
from tests.attacks.oracles import by_foolbox, distances, foolbox, subject
from tests.zoo import HalfSpace, half_space, half_space_points, images, linear


def test_adam_takes_the_steps_of_the_optimiser_of_torch():
    start, target = images(3, (4,)), images(3, (4,), seed=1)
    point = start.clone().requires_grad_()
    optimiser, adam = torch.optim.Adam([point], lr=0.03), Adam.at(start)
    for _ in range(20):
        optimiser.zero_grad()
        ((point - target) ** 2).sum().backward()
        optimiser.step()
        adam = adam.step(2 * (adam.point - target), 0.03)
    torch.testing.assert_close(adam.point, point.detach())


def test_moments_stay_with_their_example():
    adam = Adam.at(torch.zeros(3, 2)).step(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]]), 0.1)
    kept = adam[torch.tensor([False, True, True])].step(torch.ones(2, 2), 0.1)
    torch.testing.assert_close(kept.point, adam.step(torch.ones(3, 2), 0.1).point[1:])


def one_pixel():
    """Class 1 where x > .5, with logits -4 m and 4 m."""
    weight = torch.tensor([4.0], dtype=torch.float64)
    return HalfSpace(weight, torch.tensor(-2.0, dtype=torch.float64)), torch.ones(1, dtype=torch.int64)


def test_the_weight_is_searched_by_bisection():
    model, y = one_pixel()
    x, asked = torch.tensor([[0.7]], dtype=torch.float64), []
    # At the optimum without success 2 (x - z) = 8 c: z reaches .5 where c = .05, whatever smaller c fails.
    attack = CW(threat=L2(1.0), steps=200, searches=7, step_size=0.02, constant=0.001, early_abort=False)
    z = attack(lambda q: (asked.append(q.item()), model(q))[1], x, y)
    assert float(z) < 0.5
    assert float(x - z) == pytest.approx(0.2, rel=1e-2)
    ends = asked[1:][199::200]  # where each search ended: c = .001, .01, .1, .055, ...
    assert ends[0] == pytest.approx(0.7 - 4 * 0.001, abs=1e-3)
    assert ends[1] == pytest.approx(0.7 - 4 * 0.01, abs=2e-3)
    assert ends[4] == pytest.approx(0.7 - 4 * 0.0325, abs=5e-3)


def test_a_success_has_the_confidence_asked_for():
    model = half_space()
    x, y = half_space_points(model, 6)
    for attack in (
        CW(threat=L2(2.0), steps=100, searches=5, constant=1.0, confidence=0.5),
        CWLinf(threat=Linf(1.0), steps=100, rounds=30, constant=1.0, confidence=0.5),
    ):
        with torch.no_grad():
            found = margin(model(attack(model, x, y)), y)
        assert bool((found >= 0.5).all())
        assert float(found.mean()) < 1.0


def test_an_example_that_stops_improving_leaves_the_search():
    model, x = linear(3), images(6)
    y = model(x).argmax(1)
    queries = []
    for abort in (False, True):
        counted = Counted(model, torch.zeros(6, dtype=torch.int64))
        attack = CW(threat=L2(4.0), steps=100, searches=3, step_size=0.05, early_abort=abort)
        attack(counted, x, y)
        queries.append(counted.counts)
    assert queries[0].tolist() == [1 + 3 * 100] * 6
    assert bool((queries[1] < queries[0]).all())
    assert len(queries[1].unique()) > 1  # each by its own objective


def test_the_bound_shrinks_to_nine_tenths_of_each_success():
    model, y = one_pixel()
    x, asked = torch.tensor([[0.7]], dtype=torch.float64), []
    attack = CWLinf(threat=Linf(0.4), steps=50, rounds=6, step_size=0.01, constant=1.0, largest=1.0)
    z = attack(lambda q: (asked.append(q.item()), model(q))[1], x, y)
    assert 0.2 < float(x - z) < 0.23
    # The first round ends at the first success. The second goes on from there with a tau of .9 of its distance, which
    # is out of reach; it comes nearer on the way, and then c = 2 is too large.
    first = next(i for i, q in enumerate(asked) if q < 0.5)
    assert len(asked) == first + 1 + 50
    assert asked[first + 1] == asked[first]
    assert float(z) == max(q for q in asked if q < 0.5) > asked[first]


def test_agrees_with_foolbox():
    model, x, y = subject(20)
    threat = L2(8.0)
    ours = CW(threat=threat, steps=60, searches=4, step_size=0.05, constant=1.0, early_abort=False)
    theirs = foolbox.attacks.L2CarliniWagnerAttack(
        steps=60, binary_search_steps=4, stepsize=0.05, initial_const=1.0, abort_early=False
    )
    found = distances(threat, model, ours(model, x, y), x, y)
    other = distances(threat, model, by_foolbox(theirs, model, x, y), x, y)
    assert float(found.median()) == pytest.approx(float(other.median()), rel=0.02)
    assert float(found.mean()) == pytest.approx(float(other.mean()), rel=0.03)


def test_the_linf_variant_is_about_as_near_as_deepfool_of_foolbox():
    model, x, y = subject(20)
    threat = Linf(0.5)
    found = distances(threat, model, CWLinf(threat=threat, steps=60, constant=0.1, largest=5.0)(model, x, y), x, y)
    other = by_foolbox(foolbox.attacks.LinfDeepFoolAttack(), model, x, y)
    assert float(found.median()) <= 1.05 * float(distances(threat, model, other, x, y).median())
    assert math.isfinite(float(found.max()))


def test_a_bound_within_reach_ends_the_next_round_early():
    model, y = one_pixel()
    x, asked = torch.tensor([[0.7]], dtype=torch.float64), []
    attack = CWLinf(threat=Linf(0.4), steps=50, rounds=6, step_size=0.06, constant=1.0, largest=1.0)
    attack(lambda q: (asked.append(q.item()), model(q))[1], x, y)
    # The first success is at .46 or so, .24 away: nine tenths of that can be reached, and a third round begins.
    first = next(i for i, q in enumerate(asked) if q < 0.5)
    tau = 0.9 * (0.7 - asked[first])
    second = next(i for i, q in enumerate(asked) if q < 0.5 and 0.7 - q <= tau)
    assert second < first + 50
    assert asked[second + 1] == asked[second]
    assert len(asked) == second + 1 + 50
