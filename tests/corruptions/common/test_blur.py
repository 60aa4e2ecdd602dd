import math

import numpy as np
import pytest
import torch
from scipy import ndimage

from holdfast.corruptions.common.blur import (
    defocus_blur,
    disc,
    gaussian_blur,
    glass_blur,
    motion_blur,
    shuffled,
    trail,
    zoom_blur,
)
from holdfast.corruptions.common.draws import words
from holdfast.corruptions.common.filters import smooth
from holdfast.rng import Streams
from tests import chance
from tests.zoo import images

X = images(3, (3, 23, 31))
RNG = Streams(0, "blur", 3)


@pytest.mark.parametrize("parameters", [(0.3, 0.4), (1, 0.2), (1.5, 0.1), (4, 0.5), (10, 0.5)])
def test_a_disc_weighs_one_is_symmetric_and_as_wide_as_its_radius(parameters):
    kernel = disc(*parameters)
    assert float(kernel.sum()) == pytest.approx(1 if parameters[0] < 8 else 1.0108, abs=1e-4)  # as published
    for same in (kernel.T, kernel.flip(0), kernel.flip(1)):
        torch.testing.assert_close(same, kernel)
    soft = math.exp(-0.5 / parameters[1] ** 2) > 0
    assert len(kernel) // 2 == min(int(parameters[0]) + (2 if parameters[0] > 8 else soft), max(8, int(parameters[0])))


def test_a_hard_disc_has_equal_weights_where_it_covers_a_pixel():
    kernel = disc(3, 0.01)
    y, x = np.mgrid[-3:4, -3:4]
    expected = (x**2 + y**2 <= 9) / 29
    np.testing.assert_allclose(kernel.numpy(), expected, atol=1e-12)


def test_defocus_is_a_correlation_with_mirrored_edges():
    kernel = disc(4, 0.5).numpy()
    expected = [[ndimage.correlate(plane, kernel, mode="mirror") for plane in image] for image in X.numpy()]
    np.testing.assert_allclose(defocus_blur(X, (4, 0.5), RNG).numpy(), np.array(expected), atol=1e-12)


@pytest.mark.parametrize("reach", [1, 2, 4])
def test_glass_goes_through_the_pixels_one_after_the_other(reach):
    height, width, rounds = 12, 15, 3
    source = shuffled(torch.zeros(2, 1, height, width), reach, rounds, Streams(5, "glass", 2))
    rng = Streams(5, "glass", 2)
    expected = np.arange(height * width).reshape(1, height, width).repeat(2, 0)
    for _ in range(rounds):
        draws = (
            words(rng, torch.empty(2, height - 2 * reach, width - 2 * reach)).bitwise_and(0x7FFFFFFF) % (2 * reach) ** 2
        )
        for n, y, x in (
            (n, y, x)
            for n in range(2)
            for y in range(height - reach, reach, -1)
            for x in range(width - reach, reach, -1)
        ):
            down, right = divmod(int(draws[n, y - reach - 1, x - reach - 1]), 2 * reach)
            expected[n, y, x] = expected[n, y + down - reach, x + right - reach]
    assert np.array_equal(source.numpy(), expected.reshape(2, -1))


def test_glass_offsets_are_uniform_and_one_sided():
    source = shuffled(torch.zeros(200, 1, 30, 30), 2, 1, Streams(1, "glass", 200)).view(200, 30, 30)
    assert int((source // 30)[:, 3].min()) == 1  # the last row visited sees two rows above it, still as they were
    below = (source // 30)[:, 28] - 28  # the first row visited: its values come straight from offsets -2 to 1
    shares = [(below[:, 3:29] == offset).double().mean() for offset in (-2, -1, 1)]
    error = chance.share_error(200 * 26, 0.25, count=3)
    assert all(float(share) == pytest.approx(0.25, abs=error) for share in shares)


def test_glass_smooths_before_and_after_the_shuffle_and_stays_in_floating_point():
    parameters = (0.7, 2, 1)
    z = glass_blur(X, parameters, Streams(2, "glass", 3))
    source = shuffled(X, 2, 1, Streams(2, "glass", 3))
    moved = smooth(X, 0.7).flatten(2).gather(2, source[:, None].expand(-1, 3, -1)).view(X.shape)
    torch.testing.assert_close(z, smooth(moved, 0.7))
    assert float(((z * 255) - (z * 255).round()).abs().mean()) > 0.2


@pytest.mark.parametrize("angle", [-45.0, -20.0, 0.0, 33.0])
def test_motion_leaves_a_trail_along_its_angle(angle):
    x = torch.zeros(1, 1, 41, 41, dtype=torch.float64)
    x[..., 20, 20] = 1
    z = trail(x, 4, 3.0, torch.tensor([[angle]]), downwards=False)[0, 0]
    weight = np.exp(-0.5 * (np.arange(9) / 3.0) ** 2)
    expected = torch.zeros(41, 41, dtype=torch.float64)
    for step, share in enumerate(weight / weight.sum()):
        down = math.ceil(step * math.sin(math.radians(angle)) - 0.5)
        right = math.ceil(step * math.cos(math.radians(angle)) - 0.5)
        expected[20 - down, 20 - right] += share  # a pixel looks along the angle, so that the trail points back
    torch.testing.assert_close(z, expected, rtol=0, atol=1e-12)


def test_downward_trails_go_down_and_sideways_ones_keep_constants():
    x = torch.zeros(1, 1, 41, 41, dtype=torch.float64)
    x[..., 20, 20] = 1
    z = trail(x, 5, 4.0, torch.tensor([[-90.0]]), downwards=True)[0, 0]
    assert bool((z[:20].abs() < 1e-12).all())
    assert float(z[20:31, 20].sum()) == pytest.approx(1)
    grey = torch.full((2, 3, 9, 9), 0.4, dtype=torch.float64)
    torch.testing.assert_close(motion_blur(grey, (15, 8), Streams(0, "", 2)), grey)


def test_motion_angles_differ_between_images_and_cover_45_degrees_each_way():
    x = torch.zeros(400, 1, 21, 21, dtype=torch.float64)
    x[..., 10, 10] = 1
    z = motion_blur(x, (5, 9.0), Streams(3, "", 400))[:, 0]
    middle = (z * torch.arange(21)[:, None]).sum((1, 2)) - 10  # rows moved on average
    across = 10 - (z * torch.arange(21)).sum((1, 2))
    angle = torch.rad2deg(torch.atan2(-middle, across))
    assert float(angle.min()) == pytest.approx(-45, abs=3)
    assert float(angle.max()) == pytest.approx(45, abs=3)
    assert float(angle.mean()) == pytest.approx(0, abs=4)


def test_zoom_blur_is_the_mean_over_the_published_factors():
    factors = np.arange(1, 1.06, 0.01)
    expected = X.numpy().copy()
    for factor in factors:
        kept = [math.ceil(size / factor) for size in (23, 31)]
        first = [(size - part) // 2 for size, part in zip((23, 31), kept, strict=True)]
        centre = X.numpy()[:, :, first[0] : first[0] + kept[0], first[1] : first[1] + kept[1]]
        zoomed = ndimage.zoom(centre, (1, 1, factor, factor), order=1)
        cut = [(made - size) // 2 for made, size in zip(zoomed.shape[2:], (23, 31), strict=True)]
        expected += zoomed[:, :, cut[0] : cut[0] + 23, cut[1] : cut[1] + 31]
    np.testing.assert_allclose(zoom_blur(X, (1.06, 0.01), RNG).numpy(), expected / (len(factors) + 1), atol=1e-12)


def test_gaussian_blur_smooths():
    torch.testing.assert_close(gaussian_blur(X, (1.5,), RNG), smooth(X, 1.5))
