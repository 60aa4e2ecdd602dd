"""Björck's iteration, the polar factor and its derivative."""

import pytest
import torch

from holdfast.lipschitz import polar as module
from holdfast.lipschitz.polar import Polar, bjorck, orthogonalise
from tests.zoo import generator

SHAPES = [(3, 3), (3, 7), (7, 3), (40, 40), (10, 300), (1, 5), (5, 1), (2, 4, 6), (2, 6, 4)]


def matrix(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=dtype)


def polar(a):
    return Polar.apply(a, orthogonalise(a), False)


def test_one_step_and_the_limit_are_the_reference_values():
    # Computed apart; the limit is the polar factor.
    a = torch.tensor([[1, 0.2], [0.1, 0.8]], dtype=torch.float64) / 2
    step = torch.tensor([[0.683375, 0.124], [0.0546875, 0.56425]], dtype=torch.float64)
    limit = torch.tensor([[0.9984603532, 0.0554700196], [-0.0554700196, 0.9984603532]], dtype=torch.float64)
    torch.testing.assert_close(bjorck(a), step, rtol=0, atol=1e-12)
    torch.testing.assert_close(orthogonalise(a), limit, rtol=0, atol=1e-9)


def test_a_singular_value_beyond_the_root_of_three_flips():
    # Why matrices are scaled first: the iteration alone takes 1.75 to -1.
    value = torch.tensor([[1.75]], dtype=torch.float64)
    for _ in range(30):
        value = bjorck(value)
    assert float(value) == pytest.approx(-1)
    assert float(orthogonalise(torch.tensor([[1.75]], dtype=torch.float64))) == pytest.approx(1)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_factor_is_that_of_the_singular_value_decomposition(shape, scale):
    a = matrix(*shape)
    u, _, v = torch.linalg.svd(a, full_matrices=False)
    torch.testing.assert_close(orthogonalise(scale * a), u @ v, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(8, 8), (64, 64), (100, 250), (250, 100), (3, 16, 8)])
def test_singular_values_are_one_and_the_factor_of_a_factor_is_itself(shape, dtype):
    u = orthogonalise(matrix(*shape, dtype=dtype))
    values = torch.linalg.svdvals(u.double())
    assert float((values - 1).abs().max()) < (1e-6 if dtype is torch.float32 else 1e-14)
    assert torch.equal(orthogonalise(u), u)


def test_far_and_near_starts_agree():
    # A small change needs no scaling; a large one is scaled first. Both must give the same factor.
    u = orthogonalise(matrix(60, 60))
    for size in (1e-3, 0.02, 0.3, 30.0):
        a = u + size * matrix(60, 60, seed=1)
        left, _, right = torch.linalg.svd(a)
        torch.testing.assert_close(orthogonalise(a), left @ right, rtol=0, atol=1e-8)


@pytest.mark.parametrize("direction", [[1, -1, 0], [1, 1, -2], [1, 1, 1], [0, 0, 1]])
def test_a_start_that_is_far_in_one_direction_only_is_scaled_first(direction):
    # A singular value beyond the root of 3 would flip; the search for it must not start at a right angle to it.
    unit = torch.nn.functional.normalize(torch.tensor(direction, dtype=torch.float64), dim=0)
    a = torch.eye(3, dtype=torch.float64) + 1.5 * torch.outer(unit, unit)
    torch.testing.assert_close(orthogonalise(a), torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-12)


def test_a_singular_matrix_still_gives_an_orthogonal_one():
    a = torch.zeros(4, 6, dtype=torch.float64)
    a[0, 0] = 1
    u = orthogonalise(a)
    torch.testing.assert_close(u @ u.mT, torch.eye(4, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(64, 64), (10, 512), (300, 200)])
def test_weights_of_rank_one_become_orthogonal_to_the_promised_tolerance(shape):
    values = torch.linalg.svdvals(orthogonalise(torch.ones(shape)).double())
    assert float((values - 1).abs().max()) < 1e-6


def test_a_stack_of_a_near_and_a_far_matrix_gives_the_factor_of_each():
    near = orthogonalise(matrix(12, 12)) + 0.3 * matrix(12, 12, seed=1) / 12
    for far in (3 * matrix(12, 12, seed=2), 1.2 * torch.eye(12).double() + matrix(12, 12, seed=3)):
        for stack in (torch.stack((near, far)), torch.stack((far, near))):
            u, _, v = torch.linalg.svd(stack)
            torch.testing.assert_close(orthogonalise(stack), u @ v, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("error", "steps"), [(1e-8, 1), (1e-5, 1), (1e-4, 2), (0.1, 3)])
def test_takes_the_fewest_steps_that_reach_the_tolerance(error, steps, monkeypatch):
    # 3/4 e^2 of 1e-8 and 5/8 e^3 of 1e-5 are below the tolerance of 1.8e-15. From 0.1: 6e-4, 1.5e-10, 2e-20.
    looks, excess = [], module._excess
    monkeypatch.setattr(module, "_excess", lambda a: (looks.append(a), excess(a))[1])
    orthogonalise(torch.diag(torch.tensor([1 + error, 1.0], dtype=torch.float64).sqrt()))
    assert len(looks) == steps  # one before each step


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (2, 3, 4)])
def test_the_gradient_is_that_of_the_exact_factor(shape):
    a = matrix(*shape).requires_grad_()
    assert torch.autograd.gradcheck(polar, (a,))


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_gradients_at_an_orthogonal_matrix_are_exact_twice(shape):
    a = orthogonalise(matrix(*shape)).requires_grad_()
    assert torch.autograd.gradcheck(polar, (a,))
    assert torch.autograd.gradgradcheck(polar, (a,))
