import pytest
import torch

from holdfast.attacks import SimBA
from holdfast.attacks.simba import _Pixels, _Waves
from holdfast.frequency import dct
from holdfast.losses import cross_entropy
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf
from holdfast.wrappers import Counted
from tests.zoo import (
    THREAT_KINDS,
    HalfSpace,
    digits,
    digits_mlp,
    half_space,
    half_space_distance,
    half_space_points,
    half_space_points_at,
    images,
    linear,
)

UNBOUNDED = Linf(1.0)


def counted(attack, model, x, y, **arguments):
    wrapped = Counted(model, torch.zeros(len(x), dtype=torch.int64))
    return attack(wrapped, x, y, **arguments), wrapped.counts.tolist()


@pytest.mark.parametrize("basis", ["pixel", "dct"])
@pytest.mark.parametrize(("kind", "factor"), [("linf", 1.01), ("l2", 1.3), ("l1", 4.0)])
def test_succeeds_when_the_budget_is_clearly_larger_than_the_distance_and_never_when_smaller(kind, factor, basis):
    model, distance = half_space(), 0.03
    x, y = half_space_points_at(model, distance, kind)
    factor = 3.0 if basis == "dct" and kind == "linf" else factor  # a sum of waves is no corner of the cube
    step = 2 * distance if kind == "linf" and basis == "pixel" else distance / 10
    for times in (0.99, factor):
        attack = SimBA(threat=THREAT_KINDS[kind](times * distance), steps=240, step_size=step, basis=basis)
        lost = model(attack(model, x, y)).argmax(1) != y
        assert bool(lost.all()) if times > 1 else not lost.any()


def test_a_pass_over_all_pixels_reaches_the_best_corner_of_a_half_space():
    model = half_space()
    x, y = half_space_points(model, 10)
    eps = 0.5 * float(half_space_distance(model, x, "linf").min())
    z, queries = counted(SimBA(threat=Linf(eps), steps=12, step_size=1.0), model, x, y)
    away = model.weight.detach().sign() * (1 - 2 * y)[:, None]
    torch.testing.assert_close(z, x + eps * away)
    # one query for the clean image, one per coordinate where minus helps and two where it does not
    assert queries == (1 + 12 + (away > 0).sum(1)).tolist()


def test_the_minus_is_tried_first_and_the_plus_only_where_it_fails():
    model = HalfSpace(torch.tensor([1.0, -1.0], dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64))
    x = torch.tensor([[0.6, 0.4]], dtype=torch.float64)
    asked = []
    attack = SimBA(threat=UNBOUNDED, steps=2, step_size=0.05)
    attack(lambda z: (asked.append(z[0].tolist()), model(z))[1], x, torch.ones(1, dtype=torch.int64))
    moves = [tuple(round(b - a, 9) for a, b in zip([0.6, 0.4], point, strict=True)) for point in asked]
    assert moves in (
        [(0, 0), (-0.05, 0), (-0.05, -0.05), (-0.05, 0.05)],
        [(0, 0), (0, -0.05), (0, 0.05), (-0.05, 0.05)],
    )


def test_success_ends_the_queries_of_an_example():
    model, x = linear(3), images(8)
    y = model(x).argmax(1)
    y[0] = (y[0] + 1) % 3
    z, queries = counted(SimBA(threat=UNBOUNDED, steps=200), model, x, y)
    assert queries[0] == 1
    assert torch.equal(z[0], x[0])
    assert max(queries) < 60
    assert bool((model(z).argmax(1) != y).all())


def test_the_probability_of_the_true_class_never_rises_on_the_way():
    model, (x, y) = digits_mlp(), digits()
    right = (model(x).argmax(1) == y).nonzero()[:40, 0]
    x, y = x[right], y[right]
    losses = [
        cross_entropy(model(SimBA(threat=L2(0.5), steps=steps, step_size=0.05)(model, x, y)), y).detach()
        for steps in (1, 5, 20)
    ]
    assert bool((losses[0] <= losses[1] + 1e-6).all())
    assert bool((losses[1] <= losses[2] + 1e-6).all())
    assert bool((losses[0] < losses[2]).all())


def test_every_coordinate_is_tried_once_before_any_is_tried_again():
    flat = torch.full((3, 6), 0.5, dtype=torch.float64)
    seen = []

    def constant(z):
        seen.append((z - 0.5).abs())
        return torch.tensor([[1.0, 0.0]], dtype=torch.float64).expand(len(z), 2)

    SimBA(threat=UNBOUNDED, steps=12, step_size=0.1)(constant, flat, torch.zeros(3, dtype=torch.int64))
    moved = torch.stack(seen[1::2]).argmax(2)  # (12, 3): the coordinate of each minus
    for half in (moved[:6], moved[6:]):
        assert torch.equal(half.sort(0).values, torch.arange(6)[:, None].expand(6, 3))
    assert not torch.equal(moved[:6, 0], moved[6:, 0])
    assert not torch.equal(moved[:6, 0], moved[:6, 1])


def test_waves_are_the_lowest_frequencies_of_each_channel():
    like = torch.zeros(4, 2, 6, 8, dtype=torch.float64)
    waves = _Waves(like, 3)
    assert waves.count == 2 * 3 * 3
    coefficients = dct(waves.vectors(torch.arange(waves.count)))
    ones = coefficients.abs() > 1e-9
    assert ones.flatten(1).sum(1).tolist() == [1] * 18
    torch.testing.assert_close(coefficients[ones], torch.ones(18, dtype=torch.float64))
    assert not ones[:, :, 3:].any()
    assert not ones[:, :, :, 3:].any()
    assert bool(ones.any(0)[:, :3, :3].all())
    assert _Waves(like, None).count == 2 * 6 * 8
    assert _Pixels(like).count == 2 * 6 * 8


def test_the_threat_bounds_the_image_and_not_the_coefficients():
    # Coefficients add up past the bound; clipping their sum is not the sum of clipped waves.
    model, (x, y) = digits_mlp(), digits()
    attack = SimBA(threat=Linf(0.05), steps=60, basis="dct")
    z = attack(model, x[:30], y[:30])
    assert float((z - x[:30]).abs().max()) <= 0.05 + 1e-6
    at_the_bound = ((z - x[:30]).abs() > 0.0499).float().mean()
    assert float(at_the_bound) > 0.3


def test_a_target_is_reached():
    model, x = linear(4), images(12)
    y = model(x).argmax(1)
    target = (y + 1) % 4
    z = SimBA(threat=UNBOUNDED, steps=100, step_size=0.4)(model, x, y, target=target)
    assert torch.equal(model(z).argmax(1), target)


def test_examples_have_orders_of_their_own():
    x = torch.full((2, 30), 0.5, dtype=torch.float64)
    model = linear(2, (30,))
    y = model(x).argmax(1)
    attack = SimBA(threat=L1(10.0), steps=3, step_size=0.01)
    z = attack(model, x, y, rng=Streams(0, "", 2))
    assert not torch.equal(z[0], z[1])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 0}, "steps and step_size must be positive"),
        ({"step_size": 0.0}, "steps and step_size must be positive"),
        ({"basis": "wavelet"}, "basis must be pixel or dct"),
        ({"frequencies": 4}, "for the basis dct alone"),
        ({"frequencies": 0, "basis": "dct"}, "a positive number"),
    ],
)
def test_impossible_fields_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        SimBA(threat=Linf(0.1), **fields)
