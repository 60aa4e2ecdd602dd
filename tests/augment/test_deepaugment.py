"""Random networks, one for each image."""

import pytest
import torch
import torch.nn.functional as F

from holdfast.augment import DeepAugment
from holdfast.augment.deepaugment import convolved
from holdfast.rng import Streams
from tests import chance
from tests.zoo import images


def test_each_image_meets_its_own_kernels():
    x, weight = torch.randn(5, 3, 7, 6), torch.randn(5, 4, 3, 3, 3)
    padded = F.pad(x, (1, 1, 1, 1), mode="reflect")
    alone = torch.cat([F.conv2d(padded[i : i + 1], weight[i]) for i in range(5)])
    torch.testing.assert_close(convolved(x, weight), alone, rtol=1e-4, atol=1e-5)


def test_changes_have_the_size_that_was_drawn():
    x = images(500, (3, 12, 12), low=0.45, high=0.55)  # far from the box, so that nothing is clipped
    strength = 0.05
    change = DeepAugment(strength=strength)(x, rng=Streams(0, "s", 500)) - x
    size = change.flatten(1).square().mean(1).sqrt() / strength
    assert float(size.max()) <= 1 + 1e-9
    assert float(size.mean()) == pytest.approx(0.5, abs=chance.deviations() / (12 * 500) ** 0.5)
    assert float(change.mean((2, 3)).abs().max()) < 1e-12  # the tint of a channel stays


def test_strength_nought_changes_nothing_and_flat_images_stay_flat():
    x = images(4, (3, 8, 8))
    assert torch.equal(DeepAugment(strength=0.0)(x), x)
    flat = torch.full((4, 3, 8, 8), 0.3)
    torch.testing.assert_close(DeepAugment(strength=1.0)(flat), flat, rtol=0, atol=1e-4)


def test_the_same_image_meets_different_networks():
    x = images(1, (3, 12, 12), low=0.3, high=0.7).expand(6, -1, -1, -1)
    change = (DeepAugment(strength=0.2)(x) - x).flatten(1)
    alike = torch.corrcoef(change).fill_diagonal_(0)
    assert float(alike.abs().max()) < 0.95


@pytest.mark.parametrize("fields", [{"strength": 1.5}, {"layers": 0}, {"channels": 0}])
def test_refuses_what_cannot_be(fields):
    with pytest.raises(ValueError, match=f"{next(iter(fields))}.*: expected"):
        DeepAugment(**fields)
