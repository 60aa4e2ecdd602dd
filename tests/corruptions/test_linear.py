import pytest
import torch

from holdfast.corruptions import GaussianNoise, Linear
from tests import chance
from tests.zoo import images


def test_the_ends_are_the_image_and_grey():
    x = images(50, (1, 10, 10))
    torch.testing.assert_close(Linear(1.0)(x), x, rtol=0, atol=1e-12)
    grey = Linear(0.0)(x)
    assert float(grey.mean()) == pytest.approx(0.5, abs=chance.deviations() * 6 / 255 / 5000**0.5)
    assert float(grey.std()) == pytest.approx(6 / 255, rel=chance.spread_error(5000))


def test_between_it_is_a_mixture():
    x = images(4)
    torch.testing.assert_close(Linear(0.25, std=0.0)(x), 0.25 * x + 0.375)


@pytest.mark.parametrize("ratio", [-0.1, 1.1])
def test_shares_outside_are_refused(ratio):
    with pytest.raises(ValueError, match="ratio must lie in"):
        Linear(ratio)
    with pytest.raises(ValueError, match="std must not be negative"):
        Linear(0.5, std=-1.0)


def test_noise_may_be_left_unclipped():
    x = images(4)
    loose, tight = GaussianNoise(0.5, clip=False)(x), GaussianNoise(0.5)(x)
    assert float(loose.min()) < 0
    assert torch.equal(loose.clamp(0, 1), tight)
