"""Loss surfaces: closed forms on linear networks, orthonormal planes, and the promises of an analysis."""

import pytest
import torch
from torch import nn

from holdfast.attacks import PGD
from holdfast.losses import cross_entropy
from holdfast.questions.surface.measurement import Surface, gradient_plane, loss_surface, nearest_change, plane_through
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from holdfast.threat import L2
from tests.zoo import Saturated, half_space, half_space_points, images, labels, linear, smooth


def dot(one, other):
    return (one.flatten(1) * other.flatten(1)).sum(1)


def assert_orthonormal(plane):
    one = torch.ones(len(plane.first), dtype=plane.first.dtype)
    torch.testing.assert_close(dot(plane.first, plane.first), one)
    torch.testing.assert_close(dot(plane.second, plane.second), one)
    torch.testing.assert_close(dot(plane.first, plane.second), 0 * one, atol=1e-12, rtol=0)


def test_a_half_space_is_a_ramp_along_the_gradient_and_constant_across():
    model = half_space()
    x, y = half_space_points(model, 4)
    plane = gradient_plane(model, x, y)
    assert_orthonormal(plane)
    found = loss_surface(model, x, y, plane, radius=2.0, steps=10)
    torch.testing.assert_close(found.loss, found.loss[:, :1].expand_as(found.loss))  # every row is the same
    # Logits are -m and m: the loss is softplus(-2 m) on the right side, and the gradient lowers m by |w| per unit.
    margin = model.signed(x).detach().abs()[:, None] - model.weight.norm().detach() * found.positions
    torch.testing.assert_close(found.loss[:, 0], nn.functional.softplus(-2 * margin))
    assert bool(((found.prediction[:, 0] == y[:, None]) == (margin > 0)).all())


def test_every_point_of_the_grid_is_where_it_says():
    model, x, y = linear(4), images(3), labels(3, 4)
    plane = gradient_plane(model, x, y, rng=Streams(1, "surface", 3))
    found = loss_surface(model, x, y, plane, radius=0.5, steps=3)
    for row, column in ((0, 0), (2, 5), (6, 1)):
        z = x + found.positions[column] * plane.first + found.positions[row] * plane.second
        torch.testing.assert_close(found.loss[:, row, column], cross_entropy(model(z), y).detach())
        assert torch.equal(found.prediction[:, row, column], model(z).argmax(1))


def test_the_middle_is_the_image_itself():
    model, x, y = smooth(), images(3).float().double(), labels(3, 5)
    found = loss_surface(model, x, y, gradient_plane(model, x, y), steps=4)
    assert found.positions[4] == 0
    assert bool((found.positions == -found.positions.flip(0)).all())
    torch.testing.assert_close(found.loss[:, 4, 4], cross_entropy(model(x), y).detach(), rtol=1e-14, atol=0)


def test_the_gradient_is_the_direction_of_growth():
    model, x, y = smooth(), images(5), labels(5, 5)
    found = loss_surface(model, x, y, gradient_plane(model, x, y), radius=1e-4, steps=1)
    rise = found.loss[:, 1, 2] - found.loss[:, 1, 0]
    across = found.loss[:, 2, 1] - found.loss[:, 0, 1]
    assert bool((rise > 0).all())
    assert bool((across.abs() < 1e-3 * rise).all())


def test_batches_do_not_matter():
    model, x, y = smooth(), images(5), labels(5, 5)
    plane = gradient_plane(model, x, y, rng=Streams(2, "surface", 5))
    whole = loss_surface(model, x, y, plane, steps=3)
    small = loss_surface(model, x, y, plane, steps=3, batch=7)
    torch.testing.assert_close(small.loss, whole.loss)
    for n in range(5):
        alone = gradient_plane(model, x[n : n + 1], y[n : n + 1], rng=Streams(2, "surface", 5)[n : n + 1])
        torch.testing.assert_close(alone.second, plane.second[n : n + 1])
        found = loss_surface(model, x[n : n + 1], y[n : n + 1], alone, steps=3)
        torch.testing.assert_close(found.loss, whole.loss[n : n + 1])


def test_points_that_attacks_found_lie_at_their_marks():
    model, x, y = smooth(), images(4), labels(4, 5)
    attack = PGD(threat=L2(0.5), steps=5, until_lost=False)
    ends = [attack(model, x, y, rng=Streams(n, "attack", 4)) for n in (0, 1)]
    plane = plane_through(x, ends)
    assert_orthonormal(plane)
    assert not plane.replaced.any()
    shape = (-1, 1, 1, 1)
    for mark, end in zip(plane.marks.unbind(1), ends, strict=True):
        torch.testing.assert_close(
            x + mark[:, 0].view(shape) * plane.first + mark[:, 1].view(shape) * plane.second, end
        )
    torch.testing.assert_close(plane.marks[:, 0, 0], (ends[0] - x).flatten(1).norm(dim=1))
    assert float(plane.marks[:, 0, 1].abs().max()) < 1e-12
    one = plane_through(x, ends[:1])
    torch.testing.assert_close(one.first, plane.first)
    assert one.marks.shape == (4, 1, 2)


def test_directions_that_span_no_plane_are_replaced_and_told():
    x = images(3)
    move = images(3, seed=1) - 0.5
    plane = plane_through(x, [x + move, x + 2 * move])
    assert plane.replaced.tolist() == [[False, True]] * 3
    assert_orthonormal(plane)
    still = plane_through(x, [x, x + move])
    assert still.replaced.tolist() == [[True, False]] * 3
    assert_orthonormal(still)
    flat = gradient_plane(Saturated(linear(2), 1e6), x, linear(2)(x).argmax(1))
    assert flat.replaced.tolist() == [[True, False]] * 3
    assert_orthonormal(flat)


def test_nearly_parallel_directions_are_orthonormal_still():
    x, move = images(3), images(3, seed=1) - 0.5
    plane = plane_through(x, [x + move, x + move + 1e-5 * images(3, seed=2)])
    assert not plane.replaced.any()
    assert_orthonormal(plane)


def test_clipping_is_a_choice():
    seen = []

    def model(z):
        seen.append((float(z.min()), float(z.max())))
        return linear(3)(z)

    x, y = images(2), labels(2, 3)
    plane = gradient_plane(linear(3), x, y)
    loss_surface(model, x, y, plane, radius=5.0, steps=2)
    assert seen[0][0] < 0 < 1 < seen[0][1]
    loss_surface(model, x, y, plane, radius=5.0, steps=2, clip=True)
    assert seen[1] == (0.0, 1.0)


def test_the_nearest_change_is_measured_from_the_image():
    prediction = torch.zeros(2, 5, 5, dtype=torch.int64)
    prediction[0, 4, 3] = 1  # two steps along the second direction, one along the first
    prediction[0, 0, 0] = 2
    positions = torch.linspace(-1, 1, 5, dtype=torch.float64)
    found = nearest_change(Surface(positions, torch.zeros(2, 5, 5, dtype=torch.float64), prediction))
    assert found.tolist() == [pytest.approx(1.25**0.5), torch.inf]


def test_leaves_everything_alone():
    model, x, y = smooth(), images(3), labels(3, 5)
    with same_random_states(), same_module(model), same_tensors(x, y):
        loss_surface(model, x, y, gradient_plane(model, x, y), steps=2)


def test_nonsense_is_refused():
    model, x, y = smooth(), images(1), labels(1, 5)
    plane = gradient_plane(model, x, y)
    for radius, steps in ((0.0, 2), (-1.0, 2), (torch.inf, 2), (1.0, 0)):
        with pytest.raises(ValueError, match="expected a positive radius and one or more steps, got"):
            loss_surface(model, x, y, plane, radius=radius, steps=steps)
    with pytest.raises(ValueError, match="expected one or two points for each image, got 3"):
        plane_through(x, [x, x, x])
    with pytest.raises(ValueError, match="a plane needs images of two or more values"):
        plane_through(x[:, :, 0, :1], [x[:, :, 0, :1]])
