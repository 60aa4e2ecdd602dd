"""Conditions of the gradient, where their limits lie."""

import pytest
import torch

from holdfast.losses import cross_entropy, margin
from holdfast.trust.slopes import Slope, gradients
from tests import zoo


def level(verdict):
    return verdict.level


def test_counts_flat_examples_and_entries_of_a_gradient():
    """Two of three examples beyond a threshold of the first pixel, where the model is constant."""

    def model(x):
        on = (x[:, :1] > 0.5).to(x)
        return torch.cat((x[:, 1:2] * on, -x[:, 1:2] * on), dim=1)

    x = torch.tensor([[1.0, 0.3], [0.0, 0.3], [0.0, 0.9]])
    slope = Slope.of(margin, model, x, torch.zeros(3, dtype=torch.int64))
    assert (slope.flat, slope.tiny, slope.examples) == (2, 2, 3)
    assert slope.zero_entries == pytest.approx(5 / 6)
    assert slope.useful_entries == pytest.approx(1 / 3)  # one entry of three examples
    assert "on average 0.3 of 2 entries of an example above" in str(slope)


def test_tiny_gradients_are_a_warning_and_zero_ones_a_failure():
    x, y = zoo.digits()
    x, y, model = x[:60], y[:60], zoo.digits_mlp()
    assert level(gradients(model, x, y)) == "pass"

    def tiny(z, y):
        return 1e-8 * cross_entropy(z, y)

    warned = gradients(model, x, y, tiny)
    assert warned.level == "warn"
    assert "climb cross_entropy" in warned.remedy
    saturated = gradients(zoo.Saturated(model), x, y)
    assert saturated.level == "fail"
    assert "climb margin" in saturated.remedy
    assert gradients(zoo.Saturated(model), x, y, margin).level == "pass"
    assert "BPDA" in gradients(zoo.Masked(model), x, y).remedy
