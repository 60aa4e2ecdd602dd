"""The geometry that minimum-norm attacks ask of a norm."""

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize

from holdfast.rng import Streams
from holdfast.threat import L1, L2, THREATS, Linf
from holdfast.threat.ball import level
from tests.zoo import images

BALLS = {"linf": Linf(1.0), "l2": L2(1.0), "l1": L1(1.0)}


def planes(count, size, *, seed=0, scale=1.0, dtype=torch.float64):
    """Points of the box, normals, and the value of a linear function at the points."""
    random = Streams(seed, "planes", count)
    x = images(count, (size,), seed=seed, dtype=dtype)
    return x, random.normal(x), scale * random.normal(x.new_empty(count))


def value_at(z, x, normal, value):
    return value + ((z - x) * normal).flatten(1).sum(1)


def reach(x, normal, value):
    """How near to zero the box lets the function come."""
    best = torch.where(normal * value[:, None] > 0, 0.0, 1.0)
    left = value_at(best.to(x), x, normal, value)
    return torch.where(left * value > 0, left, torch.zeros_like(left))


def exact(kind, x, normal, value):
    """Distance of x to the plane within the box by a solver, one example in numpy; infinite where there is none."""
    size = len(x)
    bounds = [(-c, 1 - c) for c in x]
    if kind == "l2":
        start = np.clip(x - value * normal / (normal @ normal), 0, 1) - x
        solved = minimize(
            lambda d: d @ d,
            start,
            jac=lambda d: 2 * d,
            bounds=bounds,
            constraints={"type": "eq", "fun": lambda d: value + normal @ d, "jac": lambda d: normal},
            options={"ftol": 1e-14, "maxiter": 500},
            method="SLSQP",
        )
        return np.sqrt(solved.fun) if solved.success else np.inf
    # Variables d and t: |d_i| <= t (one t, or one each), least sum of t.
    bound = np.ones((size, 1)) if kind == "linf" else np.eye(size)
    count = bound.shape[1]
    solved = linprog(
        np.r_[np.zeros(size), np.ones(count)],
        A_ub=np.block([[np.eye(size), -bound], [-np.eye(size), -bound]]),
        b_ub=np.zeros(2 * size),
        A_eq=np.r_[normal, np.zeros(count)][None],
        b_eq=[-value],
        bounds=bounds + [(0, None)] * count,
    )
    return solved.fun if solved.success else np.inf


@pytest.mark.parametrize("scale", [0.2, 1.5])
@pytest.mark.parametrize("kind", BALLS)
def test_the_point_of_a_hyperplane_is_as_near_as_a_solver_finds(kind, scale):
    x, normal, value = planes(25, 5, scale=scale)
    z = BALLS[kind].to_hyperplane(x, normal, value)
    assert bool(((z >= 0) & (z <= 1)).all())
    torch.testing.assert_close(value_at(z, x, normal, value), reach(x, normal, value), rtol=0, atol=1e-12)
    found = BALLS[kind].distance(z, x)
    for row in range(25):
        best = exact(kind, x[row].numpy(), normal[row].numpy(), float(value[row]))
        if np.isfinite(best):
            assert float(found[row]) == pytest.approx(best, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("kind", BALLS)
def test_far_from_the_box_the_distance_is_the_value_over_the_dual_norm(kind):
    _, normal, value = planes(30, 7, scale=0.01)
    x = torch.full_like(normal, 0.5)
    distance = BALLS[kind].distance(BALLS[kind].to_hyperplane(x, normal, value), x)
    torch.testing.assert_close(distance, value.abs() / BALLS[kind].dual(normal))


@pytest.mark.parametrize("kind", BALLS)
def test_the_box_is_taken_into_account_by_hand(kind):
    # f = -1 + 2 (z1 - .9) + (z2 - .2): the first coordinate has room for .1 and brings .2, the second brings the rest.
    x, normal = torch.tensor([[0.9, 0.2]], dtype=torch.float64), torch.tensor([[2.0, 1.0]], dtype=torch.float64)
    z = BALLS[kind].to_hyperplane(x, normal, torch.tensor([-1.0], dtype=torch.float64))
    torch.testing.assert_close(z, torch.tensor([[1.0, 1.0]], dtype=torch.float64))


@pytest.mark.parametrize("kind", BALLS)
def test_a_hyperplane_outside_the_box_gives_the_nearest_corner(kind):
    x, normal = torch.tensor([[0.9, 0.2]], dtype=torch.float64), torch.tensor([[2.0, -1.0]], dtype=torch.float64)
    z = BALLS[kind].to_hyperplane(x, normal, torch.tensor([-9.0], dtype=torch.float64))
    torch.testing.assert_close(z, torch.tensor([[1.0, 0.0]], dtype=torch.float64))


@pytest.mark.parametrize("kind", BALLS)
def test_a_point_on_the_plane_and_a_zero_normal_do_not_move(kind):
    x, normal, value = planes(6, 4)
    torch.testing.assert_close(BALLS[kind].to_hyperplane(x, normal, 0 * value), x, rtol=0, atol=0)
    torch.testing.assert_close(BALLS[kind].to_hyperplane(x, 0 * normal, value), x, rtol=0, atol=0)


@pytest.mark.parametrize("size", [1e-30, 1e20])
@pytest.mark.parametrize("kind", BALLS)
def test_tiny_and_huge_normals_name_the_same_plane_in_float32(kind, size):
    x, normal, value = planes(10, 12, dtype=torch.float32)
    plain = BALLS[kind].to_hyperplane(x, normal, value)
    torch.testing.assert_close(BALLS[kind].to_hyperplane(x, size * normal, size * value), plain, rtol=1e-4, atol=1e-5)


def test_level_is_exact_and_stops_at_the_last_limit():
    slope, limit = torch.tensor([[1.0, 2.0, 4.0]] * 4), torch.tensor([[0.5, 0.1, 0.0]] * 4)
    # 3 t up to .1, then .2 + t up to .5, then .7 whatever comes.
    found = level(slope, limit, torch.tensor([0.0, 0.15, 0.5, 9.0]))
    torch.testing.assert_close(found[:3], torch.tensor([0.0, 0.05, 0.3]))
    assert float(found[3]) >= 0.5


@pytest.mark.parametrize("name", BALLS)
def test_a_radius_per_example_is_the_projection_of_each_on_its_own_ball(name):
    threat, x = THREATS[name](0.3), images(5)
    z = x + Streams(0, "radii", 5).normal(x)
    large = (0.8, 0.9) if name == "linf" else (3.0, 50.0)  # no ball of linf is larger than the box
    radius = torch.tensor([0.01, 0.3, 1.0, *large], dtype=torch.float64)
    found = threat.project_within(z, x, radius)
    for row, each in enumerate(radius.tolist()):
        one = slice(row, row + 1)
        torch.testing.assert_close(found[one], THREATS[name](each).project(z[one], x[one]))
    assert torch.equal(threat.project_within(z, x, 0.3), threat.project(z, x))
    assert torch.equal(threat.project_within(z, x, 0 * radius), x)


@pytest.mark.parametrize("kind", BALLS)
def test_samples_with_a_radius_per_example_are_those_of_its_ball(kind):
    x, large = images(5), 0.9 if kind == "linf" else 9.0
    radius = torch.tensor([0.0, 0.01, 0.3, 1.0, large], dtype=torch.float64)
    found = BALLS[kind].sample_within(x, Streams(2, "", 5), radius)
    for row, each in enumerate(radius.tolist()[1:], 1):
        one = torch.tensor([row])
        alone = THREATS[kind](each).sample(x[one], Streams(2, "", one))
        torch.testing.assert_close(found[one], alone)
    assert torch.equal(found[0], x[0])
