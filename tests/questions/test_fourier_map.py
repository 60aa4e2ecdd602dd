"""Maps over Fourier frequencies: which are independent, how they are drawn whole, and means over parts of them."""

import itertools
import math

import pytest
import torch

from holdfast.frequency import fourier_wave
from holdfast.questions.fourier_map import (
    WIDTH,
    by_radius,
    fourier_map,
    in_thirds,
    independent,
    radius,
    signed,
    whole_map,
)

SIZES = [(1, 1), (1, 6), (4, 4), (5, 5), (6, 9), (9, 6), (4, 7)]


@pytest.mark.parametrize("size", SIZES)
def test_independent_frequencies_have_different_orthogonal_waves_and_there_are_no_more(size):
    waves = torch.stack([fourier_wave(*size, *frequency).flatten() for frequency in independent(*size)])
    torch.testing.assert_close(waves @ waves.T, torch.eye(len(waves)).double(), atol=1e-12, rtol=0)
    every = [fourier_wave(*size, i, j).flatten() for i in range(size[0]) for j in range(size[1])]
    assert {tuple(wave.tolist()) for wave in waves} == {tuple(wave.tolist()) for wave in every}


def test_images_of_32_pixels_have_514():
    assert len(independent(32, 32)) == 514


@pytest.mark.parametrize("size", SIZES)
def test_the_whole_map_has_frequency_0_in_the_middle_and_is_symmetric(size):
    height, width = size
    frequencies = independent(*size)
    whole = whole_map([float(place) for place in range(len(frequencies))], *size)
    assert whole[height // 2][width // 2] == frequencies.index((0, 0)) == 0
    for place, frequency in enumerate(frequencies):
        i, j = signed(frequency, *size)
        assert -(height // 2) <= i <= (height - 1) // 2
        assert -(width // 2) <= j <= (width - 1) // 2
        assert whole[i + height // 2][j + width // 2] == place
        assert whole[(-i + height // 2) % height][(-j + width // 2) % width] == place
    assert {value for row in whole for value in row} == set(range(len(frequencies)))


def test_frequencies_that_were_not_measured_are_empty():
    whole = whole_map([0.5, 0.25], 4, 4)
    assert sum(value is not None for row in whole for value in row) == 3  # 0, and the first wave in width twice
    assert whole[2] == [None, 0.25, 0.5, 0.25]


def test_a_map_is_drawn_at_its_frequencies_on_both_axes():
    places = {4: [-2, -1, 0, 1], 7: [-3, -2, -1, 0, 1, 2, 3]}
    for height, width in ((4, 7), (7, 4)):
        values = [0.1] * len(independent(height, width))
        drawn = fourier_map("a map", values, (height, width), hover="%{z}", ends=(0, 1))
        (trace,) = drawn.spec["data"]
        assert (trace["y"], trace["x"]) == (places[height], places[width])
        assert (trace["zmin"], trace["zmax"]) == (0, 1)
        assert drawn.spec["layout"]["yaxis"]["autorange"] == "reversed"  # as images are drawn


def test_the_radius_counts_periods_per_pixel():
    assert radius((0, 0), 8, 8) == 0
    assert radius((4, 4), 8, 8) == pytest.approx(math.sqrt(0.5))
    assert radius((7, 0), 8, 4) == radius((1, 0), 8, 4) == 0.125
    assert radius((0, 3), 8, 4) == 0.25


@pytest.mark.parametrize("size", [(32, 32), (20, 31)])
def test_means_over_rings_keep_the_radius_and_the_total(size):
    away = [radius(frequency, *size) for frequency in independent(*size)]
    x, y = by_radius(away, size)
    assert x == y
    assert list(x) == sorted(x)
    assert x[0] == 0
    assert all(later - earlier < 2 * WIDTH for earlier, later in itertools.pairwise(x))
    assert by_radius([], size) == ((), ())


def test_thirds_go_by_the_radius():
    size = (8, 8)
    away = [radius(frequency, *size) for frequency in independent(*size)]
    in_order = sorted(away)
    low, middle, high = in_thirds(away, size)
    count = len(away)
    assert low == pytest.approx(sum(in_order[: count // 3]) / (count // 3))
    assert low < middle < high
    assert in_thirds([1.0] * count, size) == [1, 1, 1]
    assert in_thirds([0.5], (1, 1)) == [None, None, 0.5]
    assert in_thirds([], size) == [None, None, None]
