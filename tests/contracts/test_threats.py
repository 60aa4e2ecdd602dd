"""What every threat promises about its geometry."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.rng import Streams
from holdfast.threat import THREATS
from tests import chance
from tests.contracts import cheap
from tests.zoo import images

SHAPES = [(6,), (1,), (2, 3, 3)]
NORMS = [name for name in THREATS if name not in cheap.COUNTS]
SLACK = 1e-12  # float64 sums of a few dozen terms


def instance(name):
    return cheap.cheap(cheap.THREATS, name, "THREATS")


def normal(count, shape, seed=0, dtype=torch.float64):
    return Streams(seed, "threat tests", count).normal(torch.empty(count, *shape, dtype=dtype))


def feasible(threat, z, x, slack=SLACK):
    return bool(((z >= 0) & (z <= 1)).all()) and bool((threat.distance(z, x) <= threat.eps + slack).all())


def inner(a, b):
    return (a * b).flatten(1).sum(1)


def feasible_points(threat, x, count=50):
    """Random points of the threat set, many of them on its surface."""
    for seed in range(count):
        scale = threat.eps * 3 * (seed + 1) / count
        yield threat.project(x + scale * normal(len(x), x.shape[1:], seed + 100), x)


def euclidean(a, b):
    return (a - b).flatten(1).norm(dim=1)


@pytest.mark.parametrize("method", ["project", "project_exact"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", THREATS)
def test_projection_is_feasible_and_idempotent(name, shape, method):
    threat, x = instance(name), images(40, shape)
    for scale in (1e-3, 0.1, 1.0, 100.0):
        z = getattr(threat, method)(x + scale * normal(40, shape), x)
        assert z.shape == x.shape
        assert feasible(threat, z, x)
        torch.testing.assert_close(getattr(threat, method)(z, x), z, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", ["project", "project_exact"])
@pytest.mark.parametrize("name", NORMS)
def test_projection_leaves_points_inside_as_they_are_to_the_bit(name, method, dtype):
    threat, x = instance(name), images(200, (2, 3, 3), dtype=dtype)
    move = normal(200, (2, 3, 3), dtype=dtype)
    radius = 0.999 * threat.eps * images(200, (1, 1, 1), seed=3, dtype=dtype)
    z = (x + radius * move / threat.distance(move, torch.zeros_like(move))[:, None, None, None]).clamp(0, 1)
    assert torch.equal(getattr(threat, method)(z, x), z)
    assert torch.equal(getattr(threat, method)(x, x), x)


@pytest.mark.parametrize("name", THREATS)
def test_projection_goes_to_the_surface_and_not_inside(name):
    threat, x = instance(name), 0.5 + torch.zeros(30, 9, dtype=torch.float64)
    z = threat.project(x + 0.5 * normal(30, (9,)), x)
    outside = threat.distance(x + 0.5 * normal(30, (9,)), x) > threat.eps
    on = (threat.distance(z, x) - threat.eps).abs() < 1e-9
    hits_box = ((z == 0) | (z == 1)).any(1)
    assert bool((on | hits_box)[outside].all())
    assert bool(on[outside].any())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", THREATS)
def test_exact_projection_is_nearer_than_every_other_feasible_point(name, shape):
    threat, x = instance(name), images(20, shape)
    for scale in (0.2, 1.0, 5.0):
        point = x + scale * normal(20, shape)
        exact = threat.project_exact(point, x)
        distance = euclidean(exact, point)
        assert bool((distance <= euclidean(threat.project(point, x), point) + 1e-12).all())
        for other in feasible_points(threat, x):
            assert bool((distance <= euclidean(other, point) + 1e-12).all())
            # The variational inequality of a projection on a convex set: no feasible point lies towards `point`.
            assert name in cheap.COUNTS or bool((inner(point - exact, other - exact) <= 1e-9).all())


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(THREATS)),
    st.lists(st.tuples(st.floats(0, 1), st.floats(-3, 3)), min_size=1, max_size=5),
    st.floats(0.01, 3),
)
def test_projections_are_feasible_whatever_the_numbers(name, coordinates, eps):
    eps = min(eps, 1.0) if name == "linf" else eps
    threat = THREATS[name](math.ceil(eps) if name in cheap.COUNTS else eps)
    x = torch.tensor([[c for c, _ in coordinates]], dtype=torch.float64)
    point = x + torch.tensor([[m for _, m in coordinates]], dtype=torch.float64)
    near, exact = threat.project(point, x), threat.project_exact(point, x)
    assert feasible(threat, near, x)
    assert feasible(threat, exact, x)
    assert float(euclidean(exact, point)) <= float(euclidean(near, point)) + 1e-12
    if feasible(threat, point, x, slack=-1e-9):
        assert torch.equal(near, point)
        assert torch.equal(exact, point)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("name", NORMS)
def test_samples_are_uniform_in_the_ball(name, size):
    eps, count = 0.3, 4000
    threat = THREATS[name](eps)
    x = torch.full((count, size), 0.5, dtype=torch.float64)
    move = threat.sample(x, Streams(7, "uniform", count)) - x
    # P(|d| <= r eps) = r^D makes (|d| / eps)^D uniform.
    level = ((threat.distance(x + move, x) / eps) ** size).sort().values
    steps = torch.arange(count + 1, dtype=torch.float64) / count
    statistic = max(float((steps[1:] - level).max()), float((level - steps[:-1]).max()))
    assert statistic < chance.cdf_error(count)
    # Symmetric in every coordinate and exchangeable between coordinates.
    spread = move.std(0) / math.sqrt(count)
    assert bool((move.mean(0).abs() < chance.deviations(size) * spread).all())
    shares = (move.abs() > move.abs().roll(1, 1)).double().mean(0) if size > 1 else torch.full((1,), 0.5)
    assert bool(((shares - 0.5).abs() < chance.share_error(count, 0.5, count=size)).all())
    products = (move * move.roll(1, 1)).mean(0) if size > 2 else torch.zeros(1)
    assert bool((products.abs() < chance.deviations(size) * eps**2 / math.sqrt(count)).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", THREATS)
def test_samples_lie_in_ball_and_box_and_belong_to_their_example(name, shape, dtype):
    threat, x = instance(name), images(50, shape, dtype=dtype).round(decimals=1)
    z = threat.sample(x, Streams(0, "s", 50))
    assert z.dtype == dtype
    assert feasible(threat, z, x, 1e-6)
    rows = torch.tensor([7, 3, 11])
    torch.testing.assert_close(threat.sample(x[rows], Streams(0, "s", rows)), z[rows], rtol=1e-6, atol=1e-6)
    assert not torch.equal(threat.sample(x, Streams(1, "s", 50)), z)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NORMS)
def test_steepest_has_unit_norm_and_reaches_the_dual_norm(name, shape):
    threat, grad = instance(name), normal(30, shape)
    x = torch.full_like(grad, 0.5)
    step = threat.steepest(grad, x)
    torch.testing.assert_close(threat.distance(x + step, x), torch.ones(30, dtype=x.dtype))
    torch.testing.assert_close(inner(grad, step), threat.dual(grad))


@pytest.mark.parametrize("name", NORMS)
def test_norm_and_dual_norm_obey_hoelder_with_equality_reached(name):
    threat, a, b = instance(name), normal(200, (7,)), normal(200, (7,), 1)
    zero = torch.zeros_like(a)
    assert bool((inner(a, b).abs() <= threat.dual(a) * threat.distance(b, zero) + 1e-12).all())
    best = threat.steepest(a, zero + 0.5)
    torch.testing.assert_close(inner(a, best), threat.dual(a) * threat.distance(best, zero))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", THREATS)
def test_extreme_is_feasible_and_no_feasible_point_is_higher(name, shape):
    threat, x = instance(name), images(20, shape)
    grad = normal(20, shape, 5)
    best = threat.extreme(grad, x)
    assert feasible(threat, best, x)
    for other in feasible_points(threat, x):
        assert bool((inner(grad, other) <= inner(grad, best) + 1e-12).all())


@pytest.mark.parametrize("name", NORMS)
def test_extreme_gains_eps_times_the_dual_norm_far_from_the_box(name):
    threat, grad = THREATS[name](0.2), normal(20, (6,))
    x = torch.full_like(grad, 0.5)
    gain = inner(grad, threat.extreme(grad, x) - x)
    torch.testing.assert_close(gain, 0.2 * threat.dual(grad))


@pytest.mark.parametrize("name", THREATS)
def test_zero_gradients_give_zero_steps_and_move_nothing(name):
    threat, x = instance(name), images(5)
    grad = torch.zeros_like(x)
    assert torch.equal(threat.steepest(grad, x), grad)
    assert torch.equal(threat.extreme(grad, x), x)
    assert torch.equal(threat.dual(grad), torch.zeros(5, dtype=x.dtype))


@pytest.mark.parametrize("size", [1e-30, 1e-20, 1e20])
@pytest.mark.parametrize("name", THREATS)
def test_tiny_and_huge_gradients_still_give_unit_steps_in_float32(name, size):
    threat, direction = instance(name), normal(10, (1, 4, 4), dtype=torch.float32)
    x = torch.full_like(direction, 0.5)
    step = threat.steepest(direction * size, x)
    torch.testing.assert_close(threat.distance(step, torch.zeros_like(x)), torch.ones(10), rtol=1e-5, atol=0)
    torch.testing.assert_close(step, threat.steepest(direction, x), rtol=1e-4, atol=1e-6)
    higher = inner(direction, threat.extreme(direction * size, x) - x)
    torch.testing.assert_close(higher, inner(direction, threat.extreme(direction, x) - x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("eps", [0.0, -0.1, math.inf, math.nan])
@pytest.mark.parametrize("name", THREATS)
def test_refuses_a_radius_that_is_no_positive_number(name, eps):
    with pytest.raises(ValueError, match=f"{name}: eps must be a positive number"):
        THREATS[name](eps)


@pytest.mark.parametrize("name", THREATS)
def test_arguments_are_left_alone(name):
    threat, x, z, grad = instance(name), images(5), images(5, seed=1), normal(5, (1, 4, 4))
    copies = [t.clone() for t in (x, z, grad)]
    threat.project(z, x), threat.project_exact(z, x), threat.sample(x, Streams(0, "", 5))
    threat.steepest(grad, z), threat.extreme(grad, x), threat.distance(z, x), threat.dual(grad)
    assert all(torch.equal(a, b) for a, b in zip(copies, (x, z, grad), strict=True))
