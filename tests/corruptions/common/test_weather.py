import colorsys

import pytest
import torch

from holdfast.corruptions.common.colour import luminance
from holdfast.corruptions.common.frost import panes
from holdfast.corruptions.common.weather import brightness, fog, frost, plasma, snow
from holdfast.rng import Streams
from tests.zoo import images

X = images(3, (3, 20, 25))


def test_brightness_raises_the_value_of_hsv():
    x = images(1, (3, 4, 4)).round(decimals=2)
    x[0, :, 0, 0] = 0
    z = brightness(x, (0.3,), Streams())
    for row in range(4):
        for column in range(4):
            hue, saturation, value = colorsys.rgb_to_hsv(*x[0, :, row, column].tolist())
            expected = colorsys.hsv_to_rgb(hue, saturation, min(value + 0.3, 1))
            assert z[0, :, row, column].tolist() == pytest.approx(expected)


def test_grey_images_are_brightened_by_a_sum():
    torch.testing.assert_close(brightness(X[:, :1], (0.2,), Streams()), (X[:, :1] + 0.2).clamp(max=1))


def test_plasma_points_are_the_mean_of_their_neighbours_where_there_is_no_wobble():
    # A decay this strong leaves only the three points of the first grid; every other is a mean of four.
    height = plasma(X[:2], 16, 1e6, Streams(1, "fog", 2))
    assert height.shape == (2, 16, 16)
    assert height.amin((1, 2)).tolist() == [0, 0]
    assert height.amax((1, 2)).tolist() == [1, 1]
    corner = (height[:, ::8, ::8], height[:, ::8, ::8].roll(-1, 1), height[:, ::8, ::8].roll(-1, 2))
    middle = (sum(corner) + height[:, ::8, ::8].roll((-1, -1), (1, 2))) / 4
    torch.testing.assert_close(height[:, 4::8, 4::8], middle, atol=1e-9, rtol=0)


def test_plasma_roughness_shrinks_with_the_square_of_its_decay():
    def fine(decay):
        height = plasma(torch.empty(200, 1, dtype=torch.float64), 32, decay, Streams(1, "fog", 200))
        corner, middle = height[:, ::2, ::2], height[:, 1::2, 1::2]
        mean = (corner + corner.roll(-1, 2) + middle + middle.roll(1, 1)) / 4
        return float((height[:, ::2, 1::2] - mean).std())

    # The scale of the whole map is set by the coarsest grid and varies little; the fifth grid's wobble has decay**-8.
    assert fine(3.0) / fine(2.0) == pytest.approx((2 / 3) ** 8, rel=0.25)


def test_fog_keeps_the_brightest_value_as_its_ceiling():
    z = fog(X * 0.6, (1.5, 2.0), Streams(0, "", 3))
    cloud = plasma(X, 32, 2.0, Streams(0, "", 3))[:, None, :20, :25]
    brightest = (X * 0.6).amax((1, 2, 3), keepdim=True)
    torch.testing.assert_close(z, (X * 0.6 + 1.5 * cloud) * brightest / (brightest + 1.5))


def test_snow_without_flakes_only_whitens():
    z = snow(X, (0.1, 0.3, 1, 99, 8, 3, 0.7), Streams(0, "", 3))
    white = torch.maximum(X, luminance(X) * 1.5 + 0.5)
    torch.testing.assert_close(z, (0.7 * X + 0.3 * white).clamp(max=1))


def test_snow_is_the_same_turned_by_half():
    black = torch.zeros(3, 1, 20, 25, dtype=torch.float64)
    layer = snow(black, (0.1, 0.3, 1.75, 0.5, 10, 4, 1.0), Streams(0, "", 3))
    assert float(layer.max()) > 0.1
    torch.testing.assert_close(layer, layer.flip(-2, -1))


def test_frost_is_a_weighted_sum_with_a_cut_of_a_pane():
    black, white = torch.zeros(50, 3, 32, 40), torch.ones(50, 3, 32, 40)
    ice = frost(black, (1, 1, 0.2), Streams(4, "", 50))
    torch.testing.assert_close(frost(white, (0.3, 0.5, 0.2), Streams(4, "", 50)), (0.3 + 0.5 * ice).clamp(max=1))
    torch.testing.assert_close(frost(black[:, :1], (1, 1, 0.2), Streams(4, "", 50)), luminance(ice))
    assert len(ice.mean((2, 3)).div(0.1).round().unique(dim=0)) >= 3, "all images see the same pane"
    windows = panes(0.2, 32, 40, torch.device("cpu"))
    assert any(
        torch.equal(ice[0], windows[pane, :, row, column])
        for pane in range(5)
        for row in range(100)
        for column in range(100)
    )
