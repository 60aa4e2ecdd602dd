import math

import pytest
import torch
import torch.nn.functional as F

from holdfast.losses import cross_entropy, soft_cross_entropy
from holdfast.objectives import Standard
from tests.zoo import images, labels, linear


def test_is_the_mean_cross_entropy():
    model, x, y = linear(3), images(6), labels(6, 3)
    torch.testing.assert_close(Standard()(model, x, y).total, cross_entropy(model(x), y).mean())


def test_smoothed_labels_by_the_formula():
    model, x, y, s = linear(4), images(6), labels(6, 4), 0.2
    target = (1 - s) * F.one_hot(y, 4).double() + s / 4
    expected = soft_cross_entropy(model(x), target).mean()
    torch.testing.assert_close(Standard(label_smoothing=s)(model, x, y).total, expected)


def test_a_model_that_knows_nothing_costs_the_logarithm_of_the_classes():
    y = labels(5, 7)
    for s in (0.0, 0.3):
        terms = Standard(label_smoothing=s)(lambda x: torch.zeros(len(x), 7), images(5), y)
        assert float(terms.total) == pytest.approx(math.log(7), rel=1e-6)


@pytest.mark.parametrize("s", [-0.1, 1.0])
def test_impossible_smoothing_is_refused(s):
    with pytest.raises(ValueError, match=r"label_smoothing must lie in \[0, 1\)"):
        Standard(label_smoothing=s)
