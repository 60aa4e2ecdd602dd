import math

import pytest
import torch

from holdfast.corruptions import Clean, GaussianNoise, UniformNoise
from holdfast.rng import Streams
from tests import chance
from tests.zoo import images

GREY = torch.full((200, 1, 10, 10), 0.5, dtype=torch.float64)


def test_clean_images_are_the_images():
    x = images(3)
    assert Clean()(x) is x


def test_gaussian_noise_has_its_standard_deviation_and_shape():
    noise = ((GaussianNoise(0.05)(GREY) - GREY) / 0.05).flatten().numpy()
    assert noise.std() == pytest.approx(1, abs=chance.spread_error(len(noise)))
    assert chance.follows(noise, "norm")


def test_gaussian_noise_is_clipped_and_not_wrapped_or_rescaled():
    x = torch.zeros(50, 100, dtype=torch.float64)
    z = GaussianNoise(0.1)(x)
    expected = (0.1 * Streams(0, "", 50).normal(x)).clamp(0, 1)
    torch.testing.assert_close(z, expected)
    assert float((z == 0).double().mean()) == pytest.approx(0.5, abs=chance.share_error(5000, 0.5))


def test_variance_is_the_square_of_sigma():
    assert GaussianNoise(variance=0.04).scale == pytest.approx(0.2)
    torch.testing.assert_close(GaussianNoise(variance=0.04)(GREY), GaussianNoise(sigma=0.2)(GREY))


def test_no_noise_changes_nothing():
    x = images(5)
    assert torch.equal(GaussianNoise(0.0)(x), x)
    assert torch.equal(UniformNoise(0.0)(x), x)


@pytest.mark.parametrize("fields", [{}, {"sigma": 0.1, "variance": 0.01}])
def test_exactly_one_size_is_given(fields):
    with pytest.raises(ValueError, match="give sigma or variance"):
        GaussianNoise(**fields)


@pytest.mark.parametrize("fields", [{"sigma": -0.1}, {"variance": -0.1}, {"sigma": math.nan}, {"sigma": math.inf}])
def test_impossible_sizes_are_refused(fields):
    with pytest.raises(ValueError, match="finite size, not negative"):
        GaussianNoise(**fields)


def test_uniform_noise_is_uniform_between_its_ends():
    noise = ((UniformNoise(0.1)(GREY) - GREY) / 0.2 + 0.5).flatten().numpy()
    assert noise.min() >= -1e-9
    assert noise.max() <= 1 + 1e-9
    assert chance.follows(noise, "uniform")


@pytest.mark.parametrize("eps", [-0.1, math.nan, math.inf])
def test_impossible_uniform_noise_is_refused(eps):
    with pytest.raises(ValueError, match="eps must be finite and not negative"):
        UniformNoise(eps)


def test_successive_draws_differ():
    rng = Streams(0, "", 5)
    x = images(5)
    assert not torch.equal(GaussianNoise(0.1)(x, rng=rng), GaussianNoise(0.1)(x, rng=rng))
