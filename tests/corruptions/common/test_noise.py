import math

import numpy as np
import pytest
import torch
from scipy import stats

from holdfast.corruptions.common.draws import symmetric, words
from holdfast.corruptions.common.noise import gaussian_noise, impulse_noise, shot_noise, speckle_noise
from holdfast.corruptions.common.poisson import alias_table, poisson
from holdfast.rng import Streams
from tests import chance

GREY = torch.full((100, 1, 10, 20), 0.5, dtype=torch.float64)


def rng(purpose="noise"):
    return Streams(0, purpose, len(GREY))


def test_words_are_uniform_and_no_two_alike():
    word = words(rng(), torch.empty(100, 201)).double()
    assert chance.follows((word.flatten() / 2**32 + 0.5).numpy(), "uniform")
    assert len(word.unique()) > 0.999 * word.numel()
    assert (
        abs(float(torch.corrcoef(torch.stack((word[:, :-1].flatten(), word[:, 1:].flatten())))[0, 1]))
        < chance.deviations() / 20_000**0.5
    )


def test_symmetric_numbers_fill_their_interval():
    value = symmetric(rng(), GREY)
    assert chance.follows((value.flatten() / 2 + 0.5).numpy(), "uniform")


@pytest.mark.parametrize("rate", [0.0, 3 / 255 * 60, 12.0, 60.0])
def test_poisson_numbers_of_8_bit_values_follow_their_law(rate):
    number = poisson(torch.full_like(GREY, rate / 60), 60, rng()).flatten().long().numpy()
    assert fits(number, rate)


@pytest.mark.parametrize("value", [0.5 / 255, 100.3 / 255, 254.9 / 255])
def test_poisson_numbers_between_levels_follow_their_law_too(value):
    number = poisson(torch.full_like(GREY, value), 500, rng()).flatten().long().numpy()
    assert fits(number, 500 * value)
    # A law of the level below would be seen.
    if value > 0.1:
        assert chance.has_mean(number, 500 * value)


def fits(number, rate):
    """Chi-square test against the Poisson law, rare outcomes taken together."""
    if rate == 0:
        return bool((number == 0).all())
    edges = np.unique(stats.poisson.ppf(np.linspace(0.02, 0.98, 25), rate))
    expected = np.diff(np.concatenate(([0], stats.poisson.cdf(edges, rate), [1]))) * len(number)
    seen = np.bincount(np.searchsorted(edges, number), minlength=len(expected))
    return stats.chisquare(seen, expected).pvalue > chance.level()


def test_alias_tables_give_back_their_probabilities():
    share, other = (part.double().numpy() for part in alias_table(12))
    outcomes = share.shape[1]
    for level in (0, 1, 128, 255):
        total = share[level].copy()
        np.add.at(total, other[level].astype(int), 1 - share[level])
        expected = stats.poisson.pmf(np.arange(outcomes), level * 12 / 255)
        np.testing.assert_allclose(total / outcomes, expected, atol=1e-7)


def test_shot_noise_counts_photons():
    z = shot_noise(GREY, (12,), rng())
    torch.testing.assert_close(z * 12, (z * 12).round())
    sizes = chance.deviations(2) / math.sqrt(GREY.numel())
    assert float(z.mean()) == pytest.approx(0.5, abs=sizes * math.sqrt(0.5 / 12))
    assert float(z.var()) == pytest.approx(0.5 / 12, rel=sizes * math.sqrt(2 + 1 / 6))  # a Poisson law of mean 6
    assert bool((shot_noise(torch.zeros_like(GREY), (12,), rng()) == 0).all())


def test_impulse_noise_replaces_its_share_by_as_much_salt_as_pepper():
    z = impulse_noise(GREY, (0.27,), rng())
    for value, share in ((0, 0.135), (1, 0.135), (0.5, 0.73)):
        seen = float((z == value).double().mean())
        assert seen == pytest.approx(share, abs=chance.share_error(GREY.numel(), share))


def test_gaussian_noise_adds_and_speckle_multiplies():
    quarter = GREY / 2
    for function, expected in ((gaussian_noise, 0.05), (speckle_noise, 0.0125)):
        noise = function(quarter, (0.05,), rng()) - quarter
        assert float(noise.std()) == pytest.approx(expected, rel=chance.spread_error(GREY.numel()))
    assert bool((speckle_noise(torch.zeros_like(GREY), (0.5,), rng()) == 0).all())
