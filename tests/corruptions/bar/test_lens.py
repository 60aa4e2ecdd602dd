import itertools
import math

import numpy as np
import pytest
import torch
from scipy import ndimage

from holdfast.corruptions.bar import Bar
from holdfast.corruptions.bar.lens import (
    circular_motion_blur,
    coefficients,
    enlargement,
    taps,
    transverse_chromatic_abberation,
    turned,
    weights,
)
from holdfast.rng import Streams
from tests.corruptions.bar.pictures import natural

SHAPES = [(3, 32, 32), (1, 28, 28), (3, 24, 40), (3, 9, 8)]


def one(value):
    return torch.tensor([value], dtype=torch.float64)


def rotated(x, degrees):
    return torch.from_numpy(
        np.stack([[ndimage.rotate(plane, degrees, reshape=False) for plane in i] for i in x.numpy()])
    )


def enlarged(plane, factor):
    """scipy's enlargement, of which the middle is cut out."""
    made = ndimage.zoom(plane.numpy(), factor, prefilter=False)
    (top, left), (height, width) = ((a - b) // 2 for a, b in zip(made.shape, plane.shape, strict=True)), plane.shape
    return torch.from_numpy(made[top : top + height, left : left + width])


def test_weights_are_those_of_the_cubic_spline():
    which, share = taps(torch.tensor([3.0, 3.5], dtype=torch.float64), 10)
    assert which.tolist() == [[2, 3, 4, 5]] * 2
    torch.testing.assert_close(share, torch.tensor([[8, 32, 8, 0], [1, 23, 23, 1]]).double() / 48)


def test_lines_are_mirrored_about_their_end_pixels():
    which, _ = taps(torch.tensor([0.0, 9.0], dtype=torch.float64), 10)
    assert which.tolist() == [[1, 0, 1, 2], [8, 9, 8, 7]]


def test_coefficients_give_the_pixels_back():
    at_pixels = weights(torch.arange(20, dtype=torch.float64), 20)
    torch.testing.assert_close(at_pixels @ coefficients(20), torch.eye(20, dtype=torch.float64))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("degrees", [0.0, 4.2, -9.0])
def test_turning_is_that_of_scipy(shape, degrees):
    x = natural(2, shape)
    z = turned(x, one(math.radians(degrees)), one(1.0))
    torch.testing.assert_close(z, rotated(x, degrees), rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 24, 40)], ids=str)
@pytest.mark.parametrize(("severity", "level"), [(1, 2.8), (5, 6.0)])
def test_the_blur_is_the_published_mean_of_turned_images(shape, severity, level):
    x = natural(2, shape)
    positions = [k / 10 for k in range(-10, 11)]
    total = sum(math.exp(-2 * u**2) * rotated(x, 1.5 * level * u) for u in positions)
    expected = (total / sum(math.exp(-2 * u**2) for u in positions)).clamp(0, 1)
    torch.testing.assert_close(Bar("circular_motion_blur", severity)(x), expected, rtol=0, atol=1e-12)


def test_large_images_are_turned_in_blocks_of_rows():
    x = natural(1, (1, 70, 130))
    torch.testing.assert_close(turned(x, one(0.1), one(1.0)), rotated(x, math.degrees(0.1)), rtol=0, atol=1e-12)


def test_a_camera_that_stands_still_blurs_nothing():
    x = natural(3)
    torch.testing.assert_close(circular_motion_blur(x, 0, Streams(0, "", 3)), x, rtol=0, atol=1e-12)


def test_what_is_round_stays_as_it_is():
    line = torch.arange(64, dtype=torch.float64) - 31.5
    radius = torch.hypot(line[:, None], line)
    x = (0.5 + 0.4 * torch.cos(radius / 3)).expand(1, 1, 64, 64)
    z = circular_motion_blur(x, 6, Streams(0, "", 1))
    inner = (radius < 24).expand_as(x)
    assert float((z - x)[inner].abs().max()) < 1e-3
    assert float((z - x)[..., 0, 0].abs()) > 0.1


@pytest.mark.parametrize("size", [8, 28, 32, 45])
@pytest.mark.parametrize("factor", [1, 1.025, 1.05, 1.125, 1.25, 1.45, 1.5])
def test_enlargement_is_that_of_scipy(size, factor):
    plane = natural(1, (1, size, size))[0, 0]
    matrix = enlargement(size, factor)
    torch.testing.assert_close(matrix @ plane @ matrix.T, enlarged(plane, factor), rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 32, 32), (3, 24, 40)], ids=str)
def test_each_colour_is_enlarged_by_another_factor_in_all_orders(shape):
    x, level, orders = natural(80, shape), 5.0, []
    z = transverse_chromatic_abberation(x, level, Streams(0, "", 80))
    factors = (1, 1.125, 1.25)
    for image, changed in zip(x, z, strict=True):
        order = []
        for plane, seen in zip(image, changed, strict=True):
            gaps = [float((enlarged(plane, factor) - seen).abs().max()) for factor in factors]
            assert min(gaps) < 1e-12
            order.append(gaps.index(min(gaps)))
        orders.append(tuple(order))
    assert set(orders) == set(itertools.permutations(range(3)))


def test_a_grey_image_is_three_equal_colours():
    grey = natural(4, (1, 28, 28))
    coloured = transverse_chromatic_abberation(grey.expand(4, 3, 28, 28), 9.0, Streams(0, "", 4))
    z = transverse_chromatic_abberation(grey, 9.0, Streams(0, "", 4))
    torch.testing.assert_close(z, coloured.mean(1, keepdim=True), rtol=0, atol=1e-12)


@pytest.mark.parametrize("level", [0.0, 5.0, 10.0])
def test_an_even_image_stays_even(level):
    x = torch.full((2, 3, 32, 32), 0.3, dtype=torch.float64)
    torch.testing.assert_close(transverse_chromatic_abberation(x, level, Streams(0, "", 2)), x)
