"""Confidence as a condition: what is suspicious, and what is not."""

import pytest
import torch

from holdfast.attacks import APGD, PGD
from holdfast.losses import margin
from holdfast.threat import Linf
from holdfast.trust.attacks import Case
from holdfast.trust.confidence import confidence
from tests import zoo

ATTACK = APGD(threat=Linf(0.1), steps=2)


def digits(model, attack=ATTACK, count=40):
    x, y = zoo.digits()
    return confidence(Case(model, x[:count], y[:count], attack))


def coin(x):
    """Sure of class 0 unless the first value is above one half: noise decides, and there is no gradient."""
    hit = (x[:, 0] > 0.5).to(x)
    return torch.stack((4 - 8 * hit, torch.zeros_like(hit)), dim=1) + 0 * x[:, :2]


@pytest.mark.parametrize("scale", [1.0, 0.05, 5.0])
def test_neither_low_nor_high_confidence_of_an_honest_network_is_suspicious(scale):
    verdict = digits(lambda x: scale * zoo.digits_cnn()(x))
    assert (verdict.level, verdict.value, verdict.remedy) == ("pass", 0.0, "")


def test_noise_that_does_more_than_the_gradient_is_a_warning_however_often():
    x, y = torch.full((60, 2), 0.5), torch.zeros(60, dtype=torch.int64)
    verdict = confidence(Case(coin, x, y, ATTACK))
    assert verdict.level == "warn"
    assert 0.1 < verdict.value < 0.4  # a quarter: the one point is hit and the other is not
    assert "random noise does more harm than the gradient" in verdict.remedy


def test_the_step_is_that_of_the_attack_in_question():
    """A gradient that points the wrong way: the step helps, so that noise is worse."""

    class Backwards(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return -grad

    def model(x):
        return zoo.digits_cnn()(Backwards.apply(x))

    wide = PGD(threat=Linf(0.3), steps=1)
    assert digits(model, wide).level == "warn"
    assert digits(zoo.digits_cnn(), wide).level == "pass"


def test_certainty_everywhere_is_a_warning_for_the_loss_that_it_flattens():
    verdict = digits(zoo.Saturated(zoo.digits_mlp()))
    assert verdict.level == "warn"
    assert "climb margin or dlr" in verdict.remedy
    assert "40 are certain at all three" in verdict.finding
    assert digits(zoo.Saturated(zoo.digits_mlp()), PGD(threat=Linf(0.1), loss=margin)).level == "pass"


def test_the_numbers_of_table_3_1_are_told():
    x, y = zoo.digits()
    probabilities = zoo.digits_cnn()(x[:40]).double().softmax(1)
    clean = f"{100 * probabilities.amax(1).mean():.1f} % ({100 * probabilities[torch.arange(40), y[:40]].mean():.1f} %)"
    finding = digits(zoo.digits_cnn()).finding
    assert finding.startswith(f"likeliest (true) class on average: clean {clean}, random ")
    assert ", one step of PGD " in finding
