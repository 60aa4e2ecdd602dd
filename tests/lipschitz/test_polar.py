"""Björck's iteration, the polar factor and its derivative."""

import math

import pytest
import torch

from holdfast.errors import ModelError
from holdfast.lipschitz import polar as module
from holdfast.lipschitz.polar import Polar, bjorck, orthogonalise, unrolled
from tests.zoo import generator

SHAPES = [(3, 3), (3, 7), (7, 3), (40, 40), (10, 300), (1, 5), (5, 1), (2, 4, 6), (2, 6, 4), (2, 3, 4, 5), (2, 3, 5, 4)]


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
    for start in (1.75, 1.6, 1.5):  # the step of second order converges up to 1.53 only
        assert float(orthogonalise(torch.tensor([[start]], dtype=torch.float64))) == pytest.approx(1)


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


@pytest.mark.parametrize("direction", [[1, -1, 0], [1, 1, -2], [1, 1, 1], [0, 0, 1], [math.cos(2), -math.cos(1), 0]])
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


@pytest.fixture
def looks(monkeypatch):
    """What `_excess` was taken of: one look before each step."""
    looks, excess = [], module._excess
    monkeypatch.setattr(module, "_excess", lambda a: (looks.append(a), excess(a))[1])
    return looks


@pytest.mark.parametrize("leading", [(), (3,)])
def test_what_is_near_in_every_direction_is_not_scaled_however_large(leading, looks):
    # Scaled first, it would need nine steps or more.
    a = math.sqrt(1.3) * orthogonalise(matrix(*leading, 60, 60))
    looks.clear()
    orthogonalise(a)
    assert len(looks) <= 4


@pytest.mark.parametrize(("error", "steps"), [(1e-8, 1), (1e-5, 1), (1e-4, 2), (0.1, 3)])
def test_takes_the_fewest_steps_that_reach_the_tolerance(error, steps, looks):
    # 3/4 e^2 of 1e-8 and 5/8 e^3 of 1e-5 are below the tolerance of 1.8e-15. From 0.1: 6e-4, 1.5e-10, 2e-20.
    orthogonalise(torch.diag(torch.tensor([1 + error, 1.0], dtype=torch.float64).sqrt()))
    assert len(looks) == steps  # one before each step


def root(polynomial, value):
    """Where a rising polynomial, of coefficients of its powers, has a value, to the last bit."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        below = sum(factor * middle**power for power, factor in polynomial.items()) < value
        low, high = (middle, high) if below else (low, middle)
    return middle


TOLERANCE = 8 * 2.0**-52
BORDERS = [  # sizes of A A' - I of two rows, and what is done below and above each
    (4 * 2.0**-52 * math.sqrt(2), "nothing", "first order"),
    (root({2: 3 / 4, 3: 1 / 4}, TOLERANCE), "first order", "second order"),
    (root({3: 5 / 8, 4: 15 / 64, 5: 9 / 64}, TOLERANCE), "second order", "two steps"),
]


@pytest.mark.parametrize(("size", "below", "above"), BORDERS)
def test_steps_are_of_the_kind_that_the_size_of_the_error_needs(size, below, above, looks, monkeypatch):
    a = torch.tensor([[1.01, 0.0], [0.0, 1.0]], dtype=torch.float64)
    once = bjorck(a)
    for factor, expected in ((1 - 1e-12, below), (1 + 1e-12, above)):
        sizes = iter([factor * size] * 2 + [0.0])  # as if these were its own
        monkeypatch.setattr(module, "_size", lambda error, sizes=sizes: next(sizes))
        looks.clear()
        found = orthogonalise(a)
        kind = "first order" if torch.equal(found, once) else "second order"
        kind = "nothing" if torch.equal(found, a) else kind if len(looks) == 1 else "two steps"
        assert kind == expected


def test_one_matrix_that_is_not_finite_is_named_among_others():
    stack = matrix(2, 3, 3)
    stack[1, 0, 0] = math.nan
    with pytest.raises(ModelError, match="expected finite weights"):
        orthogonalise(stack)


def test_thirty_plain_steps_under_function_transforms():
    value = torch.tensor(1e-6, dtype=torch.float64)
    for _ in range(30):
        value = 1.5 * value - 0.5 * value**3
    found = unrolled(torch.tensor([[1.0, 0.0, 0.0], [0.0, 1e-6, 0.0]], dtype=torch.float64))
    torch.testing.assert_close(found[1, 1], value, rtol=1e-9, atol=0)


@pytest.mark.parametrize(("size", "tolerance"), [(5e-4, 2e-6), (9e-4, 2e-6), (1.5e-3, 1e-10), (0.3, 1e-10)])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_the_gradient_near_an_orthogonal_matrix_solves_the_equation_of_the_stretch(shape, size, tolerance):
    # X U + H^-1 G (I - U'U) with H X + X H = G U' - U G', here as one linear system.
    wide, short = (min(shape), max(shape)), min(shape)
    u, g, s = orthogonalise(matrix(*wide)), matrix(*wide, seed=1), matrix(short, short, seed=2)
    stretch = torch.eye(short).double() + size * (s + s.mT) / (s + s.mT).norm()
    eye, skew = torch.eye(short).double(), g @ u.mT - u @ g.mT
    x = torch.linalg.solve(torch.kron(stretch, eye) + torch.kron(eye, stretch), skew.flatten()).view(short, short)
    expected = x @ u + torch.linalg.solve(stretch, g - g @ u.mT @ u)
    turned = (lambda z: z) if shape == wide else (lambda z: z.mT)
    a = turned(stretch @ u).contiguous().requires_grad_()
    (found,) = torch.autograd.grad(polar(a), a, turned(g).contiguous())
    torch.testing.assert_close(turned(found), expected, rtol=0, atol=tolerance)


def test_a_matrix_that_is_its_factor_has_the_same_second_derivatives():
    u = orthogonalise(matrix(3, 4))

    def second(equal):
        a = u.clone().requires_grad_()
        (grad,) = torch.autograd.grad(Polar.apply(a, u, equal).pow(3).sum(), a, create_graph=True)
        return grad, torch.autograd.grad(grad.square().sum(), a)[0]

    for one, other in zip(second(True), second(False), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (2, 3, 4)])
def test_the_gradient_is_that_of_the_exact_factor(shape):
    a = matrix(*shape).requires_grad_()
    assert torch.autograd.gradcheck(polar, (a,))


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_gradients_at_an_orthogonal_matrix_are_exact_twice(shape):
    a = orthogonalise(matrix(*shape)).requires_grad_()
    assert torch.autograd.gradcheck(polar, (a,))
    assert torch.autograd.gradgradcheck(polar, (a,))
