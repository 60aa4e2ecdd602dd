import math

import numpy as np
import pytest
import torch

from holdfast.threat import L2, rescale_into_box
from holdfast.threat.l2 import rescale
from tests.zoo import images


def rows(*values):
    return torch.tensor([values], dtype=torch.float64)


# Clipping-aware rescaling, computed apart.
@pytest.mark.parametrize(
    ("x", "d", "r", "eta"),
    [
        ((0.2, 0.9, 0.5), (1.0, 1.0, -1.0), 0.5, 0.3464101615),
        ((0.2, 0.9, 0.5), (1.0, 1.0, -1.0), 0.9, 0.7416198487),
        ((0.2, 0.9, 0.5), (1.0, 1.0, -1.0), 1.5, 0.8),
        ((0.5, 0.5), (3.0, 4.0), 0.4, 0.08),
    ],
)
def test_rescaling_has_the_reference_scale(x, d, r, eta):
    x, d, radius = rows(*x), rows(*d), torch.tensor([r], dtype=torch.float64)
    assert float(rescale(x, d, radius)) == pytest.approx(eta, abs=1e-9)
    z = rescale_into_box(x, d, radius)
    torch.testing.assert_close(z, (x + eta * d).clamp(0, 1), rtol=0, atol=1e-9)


def test_rescaling_has_the_reference_point_and_saturates():
    x, d = rows(0.2, 0.9, 0.5), rows(1.0, 1.0, -1.0)
    z = rescale_into_box(x, d, torch.tensor([0.5], dtype=torch.float64))
    torch.testing.assert_close(z, rows(0.54641016, 1.0, 0.15358984), rtol=0, atol=1e-8)
    full = rescale_into_box(x, d, torch.tensor([1.5], dtype=torch.float64))
    assert full.tolist() == [[1.0, 1.0, 0.0]]
    assert float((full - x).norm()) == pytest.approx(0.9486832981, abs=1e-9)


def test_rescaling_of_the_reference_image():
    state = np.random.RandomState(22)
    x, d = torch.from_numpy(state.rand(1, 784)), torch.from_numpy(state.randn(1, 784))
    radius = torch.tensor([3.6], dtype=torch.float64)
    assert float(rescale(x, d, radius)) == pytest.approx(0.1377253480, abs=1e-9)
    assert float((rescale_into_box(x, d, radius) - x).norm()) == pytest.approx(3.6, abs=1e-12)
    naive = (x + 3.6 * d / d.norm()).clamp(0, 1) - x
    assert float(naive.norm()) == pytest.approx(3.39593, abs=1e-5)


def test_rescaling_ignores_the_length_of_the_direction():
    x, d, radius = images(8, (6,)), images(8, (6,), seed=1) - 0.5, torch.full((8,), 0.3, dtype=torch.float64)
    torch.testing.assert_close(rescale_into_box(x, 7 * d, radius), rescale_into_box(x, d, radius))


def test_rescaling_works_example_by_example():
    x, d = images(6, (2, 2)), images(6, (2, 2), seed=1) - 0.5
    radius = torch.linspace(0.05, 1.5, 6, dtype=torch.float64)
    whole = rescale_into_box(x, d, radius)
    for i in range(6):
        torch.testing.assert_close(rescale_into_box(x[i : i + 1], d[i : i + 1], radius[i : i + 1]), whole[i : i + 1])


def test_a_direction_into_the_wall_stays():
    z = rescale_into_box(rows(1.0, 0.0), rows(1.0, -1.0), torch.tensor([0.5], dtype=torch.float64))
    assert z.tolist() == [[1.0, 0.0]]


def test_projection_by_hand():
    z = L2(1.0).project(rows(0.5 + 3, 0.5 + 4), rows(0.5, 0.5))
    torch.testing.assert_close(z, rows(1.0, 1.0))  # (0.6, 0.8) is clipped to the box
    torch.testing.assert_close(L2(0.5).project(rows(0.5 + 3, 0.5 + 4), rows(0.5, 0.5)), rows(0.8, 0.9))


def test_projection_does_not_lengthen_what_is_inside():
    # A known slip of other libraries: rescaling every perturbation to the radius.
    x, z = rows(0.5, 0.5), rows(0.51, 0.5)
    assert torch.equal(L2(0.3).project(z, x), z)
    assert torch.equal(L2(0.3).project(x, x), x)


def test_exact_projection_uses_the_budget_that_the_box_leaves():
    # The first coordinate stops at the wall, so the other may take the rest of the ball.
    x, z = rows(0.9, 0.5), rows(2.0, 1.5)
    exact = L2(0.5).project_exact(z, x)
    torch.testing.assert_close(exact, rows(1.0, 0.5 + math.sqrt(0.25 - 0.01)))
    assert float((exact - z).norm()) < float((L2(0.5).project(z, x) - z).norm())


def test_extreme_lengthens_the_gradient_step_where_the_box_stops_a_coordinate():
    x, grad = rows(0.9, 0.5), rows(1.0, 1.0)
    torch.testing.assert_close(L2(0.5).extreme(grad, x), rows(1.0, 0.5 + math.sqrt(0.25 - 0.01)))


def test_steepest_of_subnormal_gradients_is_finite():
    step = L2(0.5).steepest(torch.full((1, 4), 1e-40), torch.full((1, 4), 0.5))
    assert bool(step.isfinite().all())
    assert float(step.norm()) <= 1 + 1e-5


@pytest.mark.parametrize("eps", [1e-3, 1e-6, 1e-9, 1e-12])
def test_tiny_balls_are_as_exact_as_large_ones(eps):
    x, grad = images(20, (6,)).round(decimals=1), images(20, (6,), seed=1) - 0.5
    threat = L2(eps)
    movable = torch.where(grad >= 0, x < 1, x > 0).any(1)
    for z in (threat.extreme(grad, x), threat.project_exact(x + grad, x)):
        moved = torch.linalg.vector_norm(z - x, dim=1)[movable]
        torch.testing.assert_close(moved, torch.full_like(moved, eps), rtol=1e-3, atol=1e-15)


def test_values_that_hardly_move_do_not_spoil_a_saturated_row():
    x, direction = torch.full((1, 3), 0.5), torch.tensor([[1e-22, 0.0, 1.0]])
    eta = rescale(x, direction, torch.tensor([5.0]))
    assert eta.isfinite().all()
    torch.testing.assert_close((x + eta * direction).clamp(0, 1), torch.tensor([[0.5, 0.5, 1.0]]))
