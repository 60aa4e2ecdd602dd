"""Labels that soften."""

import pytest
import torch

from holdfast.augment import HorizontalFlip, Spider, augmented, soften, softens
from holdfast.losses import cross_entropy
from tests.zoo import images, labels


def test_a_class_becomes_its_confidence_and_equal_shares():
    soft = soften(torch.tensor([0, 2]), torch.tensor([1.0, 0.4]), 4)
    torch.testing.assert_close(soft, torch.tensor([[1, 0, 0, 0], [0.2, 0.2, 0.4, 0.2]]))


def test_softening_twice_is_one_symmetric_channel_after_another():
    y, one, other, K = labels(5, 3), torch.rand(5), torch.rand(5), 3
    twice = soften(soften(y, one, K), other, K)
    for row in range(5):
        first, second = (
            torch.full((K, K), float(1 - s[row]) / (K - 1)).fill_diagonal_(float(s[row])) for s in (one, other)
        )
        torch.testing.assert_close(twice[row], (first @ second)[y[row]])
    assert torch.equal(soften(soften(y, one, K), torch.ones(5), K), soften(y, one, K))
    torch.testing.assert_close(twice.sum(1), torch.ones(5))


def test_only_augmentations_that_soften_touch_labels():
    x, y = images(5, (1, 8, 8)), labels(5, 10)
    assert augmented(HorizontalFlip(), x, y, classes=10)[1] is y
    assert augmented(Spider(smoothing="none"), x, y, classes=10)[1] is y
    z, soft = augmented(Spider(tau=2.0), x, y, classes=10)
    assert torch.equal(soft, soften(y, Spider(tau=2.0).confidence(z, x, 10), 10))
    assert [softens(a) for a in (HorizontalFlip(), Spider(), Spider(tau=0.0))] == [False, True, False]


def test_cross_entropy_of_distributions_is_the_mean_over_classes():
    logits, q = torch.randn(6, 4), torch.rand(6, 4).softmax(1)
    by_class = torch.stack([cross_entropy(logits, torch.full((6,), k)) for k in range(4)], dim=1)
    torch.testing.assert_close(cross_entropy(logits, q), (q * by_class).sum(1))
    y = labels(6, 4)
    one_hot = torch.nn.functional.one_hot(y, 4).float()
    torch.testing.assert_close(cross_entropy(logits, one_hot), cross_entropy(logits, y))
    with pytest.raises(IndexError):
        cross_entropy(logits, y + 9)
