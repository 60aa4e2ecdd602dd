import math

import pytest
import torch
from scipy.stats import norm

from holdfast.corruptions.bar import LEVELS
from holdfast.corruptions.bar.spectral import blue_noise_sample, brownish_noise, coloured_noise, frequency
from holdfast.rng import Streams
from tests import chance
from tests.corruptions.bar.pictures import natural

COUNT = 300


def planes(shape, amplitude, channels=1):
    like = torch.empty(COUNT, channels, *shape, dtype=torch.float64)
    return coloured_noise(like, amplitude(frequency(like)), Streams(0, "planes", COUNT))


def slope(noise):
    """Exponent of the mean power as a function of frequency, fitted between 3 cycles and half of the finest."""
    power = torch.fft.fft2(noise).abs().square().mean((0, 1))
    radius = frequency(noise)
    fitted = (radius >= 3) & (radius <= min(noise.shape[-2:]) / 2)
    logarithm = radius[fitted].log()
    centred = logarithm - logarithm.mean()
    return float((centred * power[fitted].log()).sum() / centred.square().sum())


@pytest.mark.parametrize("shape", [(32, 32), (24, 48), (33, 33)], ids=str)
def test_power_of_blue_noise_grows_as_the_square_of_frequency(shape):
    assert slope(planes(shape, lambda k: k)) == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("shape", [(32, 32), (24, 48), (33, 33)], ids=str)
def test_power_of_brownish_noise_falls_as_the_fourth_power_of_frequency(shape):
    # a^2 = (1 + k^2)^-2; from 3 cycles on its exponent is -4 up to what the 1 adds.
    amplitude = 1 / (1 + frequency(torch.empty(1, 1, *shape)).square())
    expected = slope(torch.fft.ifft2(amplitude.to(torch.complex128))[None, None])
    assert expected == pytest.approx(-3.9, abs=0.05)
    assert slope(planes(shape, lambda k: 1 / (1 + k**2))) == pytest.approx(expected, abs=0.05)


def test_mean_power_is_the_given_one_at_every_frequency():
    like = torch.empty(COUNT, 1, 16, 16, dtype=torch.float64)
    amplitude = 1 + frequency(like)
    power = torch.fft.fft2(planes((16, 16), lambda k: 1 + k)).abs().square().mean((0, 1))
    ratio = power / amplitude.square()
    ratio = ratio / ratio.flatten()[1:].mean()
    # cos^2 of a uniform phase varies by 1/sqrt(2) of its mean, here over 300 planes
    assert bool(((ratio - 1).abs() < chance.mean_error(COUNT, variance=0.5, reach=1, count=ratio.numel())).all())


def test_every_plane_has_standard_deviation_one():
    noise = planes((12, 20), lambda k: 1 / (1 + k), channels=3)
    torch.testing.assert_close(noise.std((-2, -1), correction=0), torch.ones(COUNT, 3, dtype=torch.float64))


def test_brownish_noise_has_the_published_brightness():
    # E[mean^2 / variance]: the constant has power 1/2, all others sum_{k > 0} (1 + k^2)^-2 / 2.
    noise = planes((32, 32), lambda k: 1 / (1 + k**2))
    rest = (1 / (1 + frequency(noise).square()) ** 2).sum() - 1
    assert float(noise.mean((-2, -1)).square().mean()) == pytest.approx(
        float(1 / rest), rel=chance.mean_error(COUNT, variance=0.5, reach=1)
    )
    assert float(planes((32, 32), lambda k: k).mean((-2, -1)).abs().max()) < 1e-12


def shared_phases(size):
    """Blue noise with phases shared as in the reference."""
    centred = torch.arange(size, dtype=torch.float64) - size / 2
    half = Streams(0, "shared", COUNT).uniform(torch.empty(COUNT, size, size // 2, dtype=torch.float64))
    phase = 2 * math.pi * torch.cat((half, half.flip(1, 2)), dim=2)
    spectrum = torch.polar(torch.hypot(centred[:, None], centred).expand_as(phase), phase)
    noise = torch.fft.ifft2(spectrum.roll((size // 2, size // 2), (1, 2))).real
    return noise / noise.std((-2, -1), correction=0, keepdim=True)


def test_all_pixels_vary_alike_which_they_do_not_with_the_phases_of_the_reference():
    error = chance.deviations(32 * 32) * math.sqrt(2 / COUNT)
    assert bool(((planes((32, 32), lambda k: k).var(0) - 1).abs() < error).all())
    printed = shared_phases(32).var(0)
    assert printed[0, 0] > 1.6
    assert printed[16, 16] > 1.6
    assert printed[0, 16] < 0.05
    assert printed[16, 0] < 0.05


def test_frequencies_are_in_cycles_per_shorter_side():
    square = frequency(torch.empty(1, 1, 8, 8))
    assert square[0].tolist() == [0, 1, 2, 3, 4, 3, 2, 1]
    assert float(square[3, 4]) == 5
    wide = frequency(torch.empty(1, 1, 8, 16))
    assert wide[0].tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 3.5, 3, 2.5, 2, 1.5, 1, 0.5]
    assert wide[:, 0].tolist() == [0, 1, 2, 3, 4, 3, 2, 1]


@pytest.mark.parametrize("shape", [(32, 32), (24, 40)], ids=str)
def test_the_kinds_use_noise_of_their_colour(shape):
    x = natural(5, (3, *shape))
    blue = coloured_noise(x[:, :1], frequency(x), Streams(0, "", 5))
    torch.testing.assert_close(blue_noise_sample(x, 3.5, Streams(0, "", 5)), x * (blue > -1.45))
    brown = coloured_noise(x, 1 / (1 + frequency(x) ** 2), Streams(0, "", 5))
    torch.testing.assert_close(brownish_noise(x, 5.5, Streams(0, "", 5)), (x + 35.2 / 255 * brown).clamp(0, 1))


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_as_many_pixels_go_black_as_the_threshold_says(severity):
    level = LEVELS["blue_noise_sample"][severity - 1]
    black = blue_noise_sample(torch.ones(COUNT, 3, 32, 32), level, Streams(0, "", COUNT)) == 0
    expected = norm.cdf(0.3 * level - 2.5)
    assert float(black.double().mean()) == pytest.approx(expected, rel=0.05)
    assert bool((black == black[:, :1]).all())


def test_pixels_that_stay_are_as_they_were():
    x = natural(20) + 0.01
    z = blue_noise_sample(x, 4.2, Streams(0, "", 20))
    assert torch.equal(z, x.where(z != 0, 0.0))


def test_black_pixels_keep_away_from_each_other():
    black = (blue_noise_sample(torch.ones(COUNT, 1, 32, 32), 4.2, Streams(0, "", COUNT)) == 0).double()
    share = float(black.mean())
    together = float((black[..., 1:] * black[..., :-1]).mean())
    assert together < 0.6 * share**2


def test_brownish_noise_is_added_in_its_size_and_differs_between_channels():
    x = torch.full((50, 3, 32, 32), 0.5, dtype=torch.float64)
    change = brownish_noise(x, 1.5, Streams(0, "", 50)) - 0.5
    torch.testing.assert_close(change.std((-2, -1), correction=0), torch.full((50, 3), 6.4 * 1.5 / 255).double())
    across = torch.corrcoef(change.transpose(0, 1).flatten(1))
    assert float((across - torch.eye(3)).abs().max()) < 0.2
