"""The corrected theorems on changes of weights and of inputs, and the printed ones' counter-examples."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.theory.perturbations import input_ellipsoid, parameter_ball, parameter_superset_ball


def layer(m=3, n=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((m, n), (n,)))


@pytest.mark.parametrize("seed", range(5))
def test_parameter_changes_of_a_ball_are_inputs_of_the_ellipsoid_up_to_its_surface(seed):
    weight, x = layer(seed=seed)
    gamma = 0.7
    ellipsoid = input_ellipsoid(weight, x, gamma)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(50):
        change = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        delta = torch.linalg.pinv(weight) @ (gamma * change / change.norm()) @ x
        assert float(((ellipsoid.directions @ delta) / ellipsoid.axes).square().sum()) <= 1 + 1e-9
    left, _, _ = torch.linalg.svd(weight)
    for place, axis in enumerate(ellipsoid.axes):
        delta = torch.linalg.pinv(weight) @ (gamma * torch.outer(left[:, place], x) / x.norm()) @ x
        torch.testing.assert_close(delta.norm(), axis)
        torch.testing.assert_close((ellipsoid.directions[place] @ delta).abs(), axis)
    printed = 1 / (torch.linalg.svdvals(weight) * x.norm() * gamma)
    assert not torch.allclose(printed, ellipsoid.axes, rtol=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_every_change_in_the_parameter_ball_is_an_input_within_gamma_and_no_larger_ball_is(seed):
    weight, x = layer(seed=seed)
    gamma = 0.7
    radius = parameter_ball(weight, float(x.norm()), gamma)
    left, _, _ = torch.linalg.svd(weight)
    worst = torch.linalg.pinv(weight) @ (radius * torch.outer(left[:, -1], x) / x.norm()) @ x
    assert float(worst.norm()) == pytest.approx(gamma)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(50):
        change = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        other = torch.randn(len(x), generator=generator, dtype=torch.float64)
        other = other / other.norm() * x.norm() * 0.9
        assert float((torch.linalg.pinv(weight) @ (radius * change / change.norm()) @ other).norm()) <= gamma


def test_the_printed_parameter_ball_is_too_large_where_its_radius_exceeds_1():
    weight, x = layer()
    weight, gamma = 20 * weight, 0.7
    radius = parameter_ball(weight, float(x.norm()), gamma)
    assert radius > 1
    left, _, _ = torch.linalg.svd(weight)
    needed = torch.linalg.pinv(weight) @ (radius**2 * torch.outer(left[:, -1], x) / x.norm()) @ x
    assert float(needed.norm()) == pytest.approx(radius * gamma)  # more than gamma


def test_layers_without_independent_rows_are_refused():
    for weight in (torch.zeros(2, 3), torch.randn(4, 3)):
        with pytest.raises(ValueError, match="expected a matrix with independent rows"):
            parameter_ball(weight, 1.0, 0.1)
    with pytest.raises(ValueError, match="longest: expected a positive norm, got 0"):
        parameter_ball(torch.eye(2), 0.0, 0.1)
    for gamma in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="gamma: expected a finite radius, not negative"):
            input_ellipsoid(torch.eye(2), torch.ones(2), gamma)


def covered(weight, inputs, gamma, change):
    """The same change, scaled until the worst input needs a change of exactly gamma to do as much."""
    needed = (torch.linalg.pinv(weight) @ change @ inputs.T).norm(dim=0).amax()
    return change * (gamma / needed)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 3), extra=st.integers(0, 1), more=st.integers(0, 3))
def test_covered_changes_lie_between_the_two_balls(seed, m, extra, more):
    generator = torch.Generator().manual_seed(seed)
    n, gamma = m + extra, 0.7
    draw = {"generator": generator, "dtype": torch.float64}
    weight, inputs = torch.randn(m, n, **draw), torch.randn(n + more, n, **draw)
    inner = parameter_ball(weight, float(inputs.norm(dim=1).max()), gamma)
    outer = parameter_superset_ball(weight, inputs, gamma)
    assert inner <= outer * (1 + 1e-9)
    for _ in range(20):
        change = covered(weight, inputs, gamma, torch.randn(m, n, **draw))
        assert inner * (1 - 1e-9) <= float(change.norm()) <= outer * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_superset_ball_is_the_smallest_for_orthogonal_inputs_and_for_two(seed):
    generator = torch.Generator().manual_seed(seed)
    draw = {"generator": generator, "dtype": torch.float64}
    gamma = 0.4
    weight, (rotation, _) = torch.randn(2, 3, **draw), torch.linalg.qr(torch.randn(3, 3, **draw))
    left, values, _ = torch.linalg.svd(weight)
    inputs = torch.tensor([0.5, 1.0, 4.0])[:, None].double() * rotation
    # Every input is moved as far as the ellipsoid reaches, all in the direction of its longest axis.
    farthest = gamma * values[0] * left[:, :1].expand(2, 3) @ torch.linalg.inv(inputs.T)
    torch.testing.assert_close(covered(weight, inputs, gamma, farthest), farthest)
    assert float(farthest.norm()) == pytest.approx(parameter_superset_ball(weight, inputs, gamma))
    weight, inputs = torch.randn(2, 2, **draw), torch.randn(2, 2, **draw)
    left, values, _ = torch.linalg.svd(weight)
    ends = [left[:, :1] * torch.tensor([1.0, sign]).double() for sign in (1, -1)]
    farthest = max((gamma * values[0] * end @ torch.linalg.inv(inputs.T) for end in ends), key=torch.Tensor.norm)
    assert float(farthest.norm()) == pytest.approx(parameter_superset_ball(weight, inputs, gamma))


def test_the_best_choice_of_inputs_counts():
    weight, good = torch.eye(2).double(), torch.eye(2).double()
    near = torch.tensor([[1.0, 0.0], [1.0, 1e-3]]).double()
    alone = parameter_superset_ball(weight, good, 1.0)
    assert alone == pytest.approx(2**0.5)
    assert parameter_superset_ball(weight, torch.cat([near, good]), 1.0) == pytest.approx(alone)
    assert parameter_superset_ball(weight, near, 1.0) > 1000


def test_the_printed_union_is_not_bounded_and_the_printed_square_is_too_small():
    weight, inputs, gamma = torch.eye(2).double(), 2 * torch.eye(2).double(), 0.5
    unseen = 1e6 * torch.tensor([[0.0, 1.0], [0.0, 0.0]]).double()
    assert float((unseen @ inputs[0]).norm()) <= gamma  # covered for one of the inputs, as a union asks
    radius = parameter_superset_ball(weight, inputs, gamma)
    assert radius == pytest.approx(0.25 * 2**0.5)
    change = 0.25 * torch.tensor([[1.0, 1.0], [0.0, 0.0]]).double()
    torch.testing.assert_close(covered(weight, inputs, gamma, change), change)
    assert radius**2 < float(change.norm()) <= radius * (1 + 1e-12)


def test_inputs_that_do_not_span_are_refused():
    with pytest.raises(ValueError, match="expected some that span their space"):
        parameter_superset_ball(torch.eye(2), torch.tensor([[1.0, 1.0], [2.0, 2.0], [-1.0, -1.0]]), 1.0)
    with pytest.raises(ValueError, match=r"inputs: expected \(N, 2\) for this matrix, got \(2, 3\)"):
        parameter_superset_ball(torch.eye(2), torch.ones(2, 3), 1.0)
    with pytest.raises(ValueError, match="gamma: expected a finite radius"):
        parameter_superset_ball(torch.eye(2), torch.eye(2), -1.0)
