import numpy as np
import pytest
import torch

from holdfast.rng import Streams
from holdfast.threat import L1
from tests import chance
from tests.zoo import images


def rows(*values):
    return torch.tensor([values], dtype=torch.float64)


def test_projection_is_soft_thresholding_by_hand():
    # |d| = (.4, .3, .1): threshold .1 leaves (.3, .2, 0), which sums to .5.
    x = rows(0.5, 0.5, 0.5)
    torch.testing.assert_close(L1(0.5).project(x + rows(0.4, -0.3, 0.1), x), x + rows(0.3, -0.2, 0.0))


def duchi(v, eps):
    """Duchi et al., Efficient Projections onto the l1-Ball, ICML 2008, figure 1, one vector in numpy."""
    if np.abs(v).sum() <= eps:
        return v
    u = np.sort(np.abs(v))[::-1]
    sums = np.cumsum(u)
    rho = np.nonzero(u * np.arange(1, len(u) + 1) > sums - eps)[0][-1]
    theta = (sums[rho] - eps) / (rho + 1)
    return np.sign(v) * np.maximum(np.abs(v) - theta, 0)


def test_projection_agrees_with_the_algorithm_of_duchi():
    x = torch.full((50, 12), 0.5, dtype=torch.float64)
    d = 0.4 * (2 * images(50, (12,)) - 1)
    expected = np.stack([duchi(row, 1.0) for row in d.numpy()])
    torch.testing.assert_close(L1(1.0).project(x + d, x) - x, torch.from_numpy(expected))


def bisected(z, x, eps):
    """Exact projection on ball and box by bisection of the threshold, one example in numpy."""
    d = z - x
    limit = np.where(d >= 0, 1 - x, x)

    def move(threshold):
        return np.minimum(np.maximum(np.abs(d) - threshold, 0), limit)

    low, high = 0.0, np.abs(d).max()
    if move(0.0).sum() <= eps:
        high = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if move(middle).sum() > eps else (low, middle)
    return x + np.sign(d) * move(high)


@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
def test_exact_projection_agrees_with_bisection(eps):
    x = images(40, (9,))
    z = x + Streams(0, "l1", 40).normal(x)
    expected = np.stack([bisected(a, b, eps) for a, b in zip(z.numpy(), x.numpy(), strict=True)])
    torch.testing.assert_close(L1(eps).project_exact(z, x), torch.from_numpy(expected))


def test_steepest_moves_the_coordinate_of_largest_slope_that_the_box_lets_move():
    z, grad = rows(1.0, 0.0, 0.5, 0.5), rows(5.0, -4.0, -3.0, 2.0)
    assert L1(1.0).steepest(grad, z).tolist() == [[0.0, 0.0, -1.0, 0.0]]
    assert L1(1.0).steepest(-grad, z).tolist() == [[-1.0, 0.0, 0.0, 0.0]]


def test_steepest_of_a_point_that_cannot_move_is_zero():
    assert L1(1.0).steepest(rows(1.0, -1.0), rows(1.0, 0.0)).tolist() == [[0.0, 0.0]]


def test_extreme_spends_the_budget_in_the_order_of_the_slopes():
    x, grad = rows(0.9, 0.5, 0.2), rows(3.0, 2.0, -1.0)
    torch.testing.assert_close(L1(0.65).extreme(grad, x), rows(1.0, 1.0, 0.15))
    torch.testing.assert_close(L1(0.05).extreme(grad, x), rows(0.95, 0.5, 0.2))
    torch.testing.assert_close(L1(9.0).extreme(grad, x), rows(1.0, 1.0, 0.0))


def test_extreme_does_not_spend_on_flat_coordinates():
    assert L1(1.0).extreme(rows(0.0, 1.0), rows(0.5, 0.9)).tolist() == [[0.5, 1.0]]


def test_norm_and_dual_by_hand():
    assert L1(1.0).distance(rows(0.25, 0.5), rows(0.5, 0.0)).tolist() == [0.75]
    assert L1(1.0).dual(rows(0.25, -0.5)).tolist() == [0.5]


def test_samples_are_as_sparse_as_the_uniform_distribution_of_the_ball():
    # A coordinate of a uniform point of the D-dimensional ball is eps times a Beta(1, D) variable: of mean 1 / (D + 1).
    count, size, eps = 5000, 6, 0.4
    x = torch.full((count, size), 0.5, dtype=torch.float64)
    mean = (L1(eps).sample(x, Streams(0, "l1", count)) - x).abs().mean(0)
    variance = eps**2 * size / (size + 1) ** 2 / (size + 2)
    error = chance.mean_error(count, variance=variance, reach=eps, count=size)
    torch.testing.assert_close(mean, torch.full_like(mean, eps / (size + 1)), rtol=0, atol=error)


def test_an_attack_climbs_in_the_best_hundredth_of_the_coordinates_that_can_move():
    z = torch.full((1, 300), 0.5)
    z[0, 7] = 1.0
    grad = torch.zeros(1, 300)
    grad[0, [7, 10, 20, 30, 40]] = torch.tensor([9.0, 5.0, -4.0, 3.0, 2.0])
    step = L1(1.0).ascent(grad, z)
    assert step.nonzero()[:, 1].tolist() == [10, 20, 30]
    torch.testing.assert_close(step[0, [10, 20, 30]], torch.tensor([1.0, -1.0, 1.0]) / 3)
