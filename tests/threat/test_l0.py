"""What holds where values are counted, in place of what holds for norms."""

import itertools

import pytest
import torch

from holdfast.rng import Streams
from holdfast.threat import L0
from holdfast.threat.ball import Ball
from tests import chance
from tests.zoo import images


def normal(like, seed=0):
    return Streams(seed, "l0 tests", len(like)).normal(like)


def subsets(size, count):
    """Masks of all sets of at most so many coordinates."""
    for some in range(count + 1):
        for chosen in itertools.combinations(range(size), some):
            mask = torch.zeros(size, dtype=torch.bool)
            mask[list(chosen)] = True
            yield mask


def test_it_is_a_ball():
    assert isinstance(L0(1), Ball)


def test_distance_counts_values_and_not_pixels():
    x = torch.zeros(2, 3, 2, 2)
    z = x.clone()
    z[0, :, 1, 1] = 0.5  # one pixel, three channels
    z[1, 0, 0, 0] = 1e-30
    assert L0(1).distance(z, x).tolist() == [3.0, 1.0]
    assert L0(1).distance(z, x).dtype == x.dtype


@pytest.mark.parametrize("eps", [1, 2, 3, 5])
@pytest.mark.parametrize("scale", [0.2, 1.0, 3.0])
def test_the_projection_is_the_nearest_of_all_sets_of_coordinates(eps, scale):
    x = images(60, (5,))
    point = x + scale * normal(x)
    found = (L0(eps).project(point, x) - point).square().sum(1)
    best = torch.stack([(torch.where(mask, point.clamp(0, 1), x) - point).square().sum(1) for mask in subsets(5, eps)])
    torch.testing.assert_close(found, best.amin(0), rtol=1e-12, atol=0)


def test_neither_the_largest_change_nor_the_largest_that_fits_the_box_is_kept():
    # Squared distances saved: 0.1 (2 * 2 - 0.1) = 0.39; 0.6^2 = 0.36; 0.5 (2 * 0.7 - 0.5) = 0.45.
    x = torch.tensor([[0.9, 0.2, 0.5]], dtype=torch.float64)
    z = x + torch.tensor([[2.0, 0.6, 0.7]], dtype=torch.float64)
    assert L0(1).project(z, x).tolist() == [[0.9, 0.2, 1.0]]
    assert L0(2).project(z, x).tolist() == [[1.0, 0.2, 1.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_inside_come_back_to_the_bit_however_small_their_changes(dtype):
    x = images(50, (2, 3, 3), dtype=dtype).round(decimals=1)
    z = L0(4).sample(x, Streams(0, "inside", 50))
    z[0] = x[0]
    x[0, 1, 2, 2] = 0.0
    z[0, 1, 2, 2] = 1e-30  # the last value; its square is 0 in float32, as for all those that do not change
    assert torch.equal(L0(4).project(z, x), z)
    assert torch.equal(L0(4).project_exact(z, x), z)


def test_a_radius_per_example_is_the_projection_of_each_on_its_own_ball():
    x = images(6)
    z = x + normal(x)
    radius = torch.tensor([0.0, 0.9, 1.0, 2.7, 7.0, 99.0], dtype=torch.float64)
    found = L0(1).project_within(z, x, radius)
    assert L0(1).distance(found, x).tolist() == [0, 0, 1, 2, 7, 16]
    for row in (2, 4):
        one = slice(row, row + 1)
        assert torch.equal(found[one], L0(int(radius[row])).project(z[one], x[one]))


def test_samples_are_uniform_in_ball_and_box():
    count = 6000
    x = torch.full((count, 5), 0.5, dtype=torch.float64)
    z = L0(2).sample(x, Streams(3, "uniform", count))
    changed = z != x
    assert bool((changed.sum(1) == 2).all())
    # Each of the ten pairs of coordinates is as likely.
    pairs = torch.stack([changed[:, i] & changed[:, j] for i, j in itertools.combinations(range(5), 2)], 1)
    assert bool(((pairs.double().mean(0) - 0.1).abs() < chance.share_error(count, 0.1, count=10)).all())
    # Values are uniform in [0, 1].
    values = z[changed].sort().values
    steps = torch.arange(len(values) + 1, dtype=torch.float64) / len(values)
    assert max(float((steps[1:] - values).max()), float((values - steps[:-1]).max())) < chance.cdf_error(len(values))
    # Which ones change says nothing about where to.
    assert float((values - 0.5).mean().abs()) < chance.deviations() * (1 / 12 / len(values)) ** 0.5


def test_samples_with_a_radius_per_example_are_those_of_its_ball():
    x, radius = images(4), torch.tensor([0.0, 1.0, 3.0, 99.0], dtype=torch.float64)
    found = L0(1).sample_within(x, Streams(2, "", 4), radius)
    assert L0(1).distance(found, x).tolist() == [0, 1, 3, 16]
    one = torch.tensor([2])
    assert torch.equal(found[one], L0(3).sample(x[one], Streams(2, "", one)))


def gain(grad, z, x):
    return (grad * (z - x)).flatten(1).sum(1)


@pytest.mark.parametrize("eps", [1, 2, 4])
def test_extreme_is_the_best_corner_of_all_sets_of_coordinates(eps):
    x = images(40, (5,))
    grad = normal(x)
    corner = (grad > 0).double()
    best = torch.stack([gain(grad, torch.where(mask, corner, x), x) for mask in subsets(5, eps)]).amax(0)
    torch.testing.assert_close(gain(grad, L0(eps).extreme(grad, x), x), best)


def test_steepest_is_one_value_and_gains_what_the_best_ball_of_one_does():
    x = images(40, (2, 3, 3))
    grad = normal(x)
    step = L0(1).steepest(grad, x)
    torch.testing.assert_close(x + step, L0(1).extreme(grad, x))
    assert L0(1).distance(x + step, x).tolist() == [1.0] * 40
    assert bool((gain(grad, x + step, x) <= L0(1).dual(grad)).all())


def test_no_change_within_the_box_gains_more_than_the_dual_for_each_value():
    grad, move = normal(torch.empty(300, 7).double()), 2 * images(300, (7,)) - 1
    zero = torch.zeros_like(move)
    for change in (move, move * (images(300, (7,), seed=1) < 0.3)):
        assert bool((gain(grad, change, zero) <= L0(1).dual(grad) * L0(1).distance(change, zero)).all())
    # Reached by one value that crosses the whole box.
    x = (grad < 0).double()
    torch.testing.assert_close(gain(grad, L0(1).extreme(grad, x), x), L0(1).dual(grad))


@pytest.mark.parametrize("scale", [0.3, 1.5])
def test_the_point_of_a_hyperplane_changes_as_few_values_as_can_be(scale):
    x = images(60, (5,))
    weight, value = normal(x, 1), scale * normal(x[:, 0], 2)
    z = L0(1).to_hyperplane(x, weight, value)
    assert bool(((z >= 0) & (z <= 1)).all())
    corner = torch.where(weight * value[:, None] > 0, 0.0, 1.0).double()
    farthest = value + gain(weight, corner, x)
    there = value + gain(weight, z, x)
    torch.testing.assert_close(
        there, torch.where(farthest * value > 0, farthest, torch.zeros_like(value)), rtol=0, atol=1e-12
    )
    fewest = torch.full_like(value, torch.inf)
    for mask in subsets(5, 5):
        crosses = (value + gain(weight, torch.where(mask, corner, x), x)) * value <= 0
        fewest = torch.where(crosses, fewest.clamp(max=float(mask.sum())), fewest)
    exists = fewest.isfinite()
    assert int(exists.sum()) > 20
    assert len(fewest[exists].unique()) >= 2
    assert torch.equal(L0(1).distance(z, x)[exists], fewest[exists])


def test_radii_change_by_a_factor_rounded_down_and_by_one_at_least():
    radius = torch.tensor([0.0, 1.0, 2.6, 10.0, 100.0])
    assert L0(1).rescaled(radius, 1.25).tolist() == [1, 2, 3, 12, 125]
    assert L0(1).rescaled(radius, 0.75).tolist() == [0, 0, 1, 7, 75]
    assert L0(1).rescaled(radius, 1 - 1e-9).tolist() == [0, 0, 1, 9, 99]  # a factor that is 1 in float32


@pytest.mark.parametrize("eps", [0.5, 2.5])
def test_a_part_of_a_value_is_refused(eps):
    with pytest.raises(ValueError, match="l0: eps must be a whole number of values"):
        L0(eps)
