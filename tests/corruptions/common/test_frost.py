"""Frosted panes: colours, contrast and spectrum of the photographs, and lines drawn where they should be."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from holdfast.corruptions.common.frost import SIDE, _draw, panes

# Measured on the photographs frost1 to frost5 of imagecorruptions 1.1.2 and imagecorruptions-imaug 1.1.5 (PyPI):
# mean colour and standard deviation of the grey, mean of the three channels, in 8-bit units ...
COLOURS = [
    (77.7, 149.1, 165.7),
    (200.8, 205.4, 214.5),
    (200.8, 205.4, 214.5),
    (137.6, 152.8, 165.2),
    (112.4, 123.4, 134.8),
]
DEVIATIONS = [17.97, 21.96, 21.96, 28.88, 43.10]
# ... the share of red in the deviations of the channels, and whether the ice is darker than its ground (skewness) ...
RED = [27 / (27 + 16 + 15), 21 / 66, 21 / 66, 28 / 86, 44 / 129]
SKEWNESS = [0.48, -0.95, -0.95, 0.12, 0.49]
# ... and `radial_power` below, in these bands of cycles per pixel.
BANDS = [0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.37, 0.5]
POWER = [
    [85.128, 16.458, 4.4087, 1.8009, 1.2288, 0.90803, 0.72444, 0.55037, 0.32279, 0.12347],
    [51.275, 19.163, 11.847, 7.5241, 3.6258, 1.6943, 0.95912, 0.48935, 0.25865, 0.081109],
    [51.275, 19.163, 11.847, 7.5241, 3.6258, 1.6943, 0.95912, 0.48935, 0.25865, 0.081109],
    [23.772, 15.385, 9.7623, 6.1052, 3.9358, 2.5547, 1.6490, 0.98459, 0.54895, 0.19399],
    [73.144, 36.892, 15.015, 6.2240, 3.4976, 1.7872, 0.89974, 0.46110, 0.25625, 0.15353],
]


def whole():
    """The five panes at full size in 8-bit units, (5, 3, 500, 500)."""
    return panes(1.0, 1, 1, torch.device("cpu"))[..., 0, 0].double() * 255


def radial_power(grey, size=192, step=64):
    """Mean power in each band over windows with Hann weights, where white noise of the same variance has 1."""
    hann = np.hanning(size + 2)[1:-1]
    weight = np.outer(hann, hann)
    weight /= np.sqrt((weight**2).sum())
    corners = [
        (y, x) for y in range(0, grey.shape[0] - size + 1, step) for x in range(0, grey.shape[1] - size + 1, step)
    ]
    power = np.zeros((size, size))
    for y, x in corners:
        window = grey[y : y + size, x : x + size]
        power += np.abs(np.fft.fft2((window - (window * weight**2).sum()) * weight)) ** 2 / len(corners)
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.fftfreq(size))
    masks = [(frequency >= low) & (frequency < high) for low, high in pairwise(BANDS)]
    return np.array([power[mask].mean() for mask in masks]) / grey.var()


def test_panes_have_the_colours_and_contrasts_of_the_photographs():
    assert whole().shape == (5, 3, 500, 500)
    for pane, colour, deviation in zip(whole(), COLOURS, DEVIATIONS, strict=True):
        assert pane.mean((1, 2)).tolist() == pytest.approx(colour, abs=2)
        assert float(pane.mean(0).std()) == pytest.approx(deviation, rel=0.05)


def test_channels_vary_and_ice_is_brighter_or_darker_as_in_the_photographs():
    for pane, red, skewness in zip(whole(), RED, SKEWNESS, strict=True):
        deviations = pane.std((1, 2))
        assert float(deviations[0] / deviations.sum()) == pytest.approx(red, abs=0.02)
        grey = pane.mean(0)
        third = float(((grey - grey.mean()) / grey.std()).pow(3).mean())
        assert abs(third) > 0.05
        assert (third > 0) == (skewness > 0)


def test_at_the_scale_of_cifar_every_fifth_pixel_is_taken():
    small = panes(0.2, 1, 1, torch.device("cpu"))[..., 0, 0]
    torch.testing.assert_close(small.double(), whole()[..., 2::5, 2::5] / 255)


def test_panes_have_the_spectrum_of_the_photographs():
    for pane, power in zip(whole(), POWER, strict=True):
        ratio = radial_power(pane.mean(0).numpy()) / power
        assert ratio.min() > 0.8
        assert ratio.max() < 1.25


def test_the_measure_of_power_gives_white_noise_1_and_finds_a_wave():
    grey = np.random.default_rng(0).normal(size=(512, 512))
    assert radial_power(grey) == pytest.approx(1, rel=0.1)
    wave = np.cos(2 * math.pi * 0.17 * np.arange(512)) * np.ones((512, 1))
    assert radial_power(wave).argmax() == 6


def test_panes_go_on_over_their_edges_without_a_seam():
    small = panes(0.2, 1, 1, torch.device("cpu"))[..., 0, 0]
    for dim in (-2, -1):
        steps = (small - small.roll(1, dim)).abs().movedim(dim, 0).flatten(1).mean(1)
        assert float(steps[0]) < 2 * float(steps.mean())


def test_a_cut_is_a_part_of_the_periodic_pane_at_its_scale():
    side = 100
    small = panes(0.2, 1, 1, torch.device("cpu"))[..., 0, 0]
    cuts = panes(0.2, 8, 30, torch.device("cpu"))
    assert cuts.shape == (5, 3, side, side, 8, 30)
    assert torch.equal(cuts[2, :, 99, 90], small[2].roll((-99, -90), (1, 2))[:, :8, :30])
    assert panes(0.001, 8, 8, torch.device("cpu")).shape == (5, 3, 8, 8, 8, 8)


def test_a_line_fades_from_its_start_to_its_end():
    # From (100, 200) along x for 60 pixels: dots carry 1.2 to 0.2 of the light, on row 100 alone.
    start, flat = torch.tensor([[100.0]]), torch.tensor([[0.0]])
    canvas = _draw(start, torch.tensor([[200.0]]), flat, torch.tensor([[60.0]]), torch.tensor([[2.0]]))[0]
    assert canvas.shape == (SIDE, SIDE)
    row = canvas[100]
    assert float(canvas.sum()) == pytest.approx(float(row.sum()))
    assert float(row.sum()) == pytest.approx(2 * 60 * 0.7, rel=1e-4)  # the mean of 1.2 - t over the line
    assert row.nonzero().flatten().tolist() == list(range(200, 261))
    thirds = [float(row[200 + 20 * n : 220 + 20 * n].sum()) for n in range(3)]
    assert thirds == pytest.approx([2 * 20 * (1.2 - (n + 0.5) / 3) for n in range(3)], rel=0.05)


def test_dots_are_shared_by_the_four_pixels_around_them_and_wrap_around():
    # A line too short to leave its place is a point: its light in proportion to the nearness of each pixel.
    at = torch.tensor([[SIDE - 1 + 0.25]]), torch.tensor([[0.6]])
    canvas = _draw(*at, torch.zeros(1, 1), torch.tensor([[1e-6]]), torch.tensor([[1e6]]))[0] / 0.7
    expected = {(SIDE - 1, 0): 0.75 * 0.4, (SIDE - 1, 1): 0.75 * 0.6, (0, 0): 0.25 * 0.4, (0, 1): 0.25 * 0.6}
    assert {tuple(place) for place in canvas.nonzero().tolist()} == set(expected)
    assert [float(canvas[place]) for place in expected] == pytest.approx(list(expected.values()), rel=1e-3)


def test_panes_stay_what_they_are():
    # Numbers under frost can be compared between versions only while the panes are the same; change these on purpose.
    places = ((0, 0, 0), (1, 100, 37), (2, 311, 400), (0, 495, 12), (1, 250, 250), (2, 17, 480))
    expected = [
        [0.4320, 0.5145, 0.7412, 0.3920, 0.5148, 0.7085],
        [0.7889, 0.8521, 0.8493, 0.7675, 0.7666, 0.7361],
        [0.8830, 0.9837, 0.7941, 0.8415, 0.8164, 0.8740],
        [0.7796, 0.6383, 0.5671, 0.5527, 0.5450, 0.7368],
        [0.4904, 0.6430, 0.6065, 0.4808, 0.1150, 0.5296],
    ]
    for pane, values in zip(whole() / 255, expected, strict=True):
        assert [float(pane[place]) for place in places] == pytest.approx(values, abs=1e-3)
