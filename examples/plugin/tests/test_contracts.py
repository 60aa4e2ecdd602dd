"""The methods keep the promises of their families, and do what their formulas say."""

import torch
from holdfast_example.entropy import Entropy
from holdfast_example.label_smoothing import LabelSmoothing
from holdfast_example.momentum import Momentum

from holdfast.data import checked
from holdfast.losses import cross_entropy
from holdfast.testing import check_attack, check_objective, check_question
from holdfast.testing.networks import images, labels, linear, smooth
from holdfast.threat import L2, Linf


def test_the_attack_keeps_its_promises():
    for threat in (Linf(0.1), L2(0.4)):
        check_attack(Momentum(threat=threat, steps=3))


def test_the_attack_finds_the_worst_point_of_a_linear_network():
    model, x, y = linear(2), images(20, low=0.4, high=0.6), labels(20, 2)
    threat = Linf(0.1)
    slope = model.weight[1 - y] - model.weight[y]
    worst = threat.extreme(slope.detach().view_as(x), x)
    torch.testing.assert_close(Momentum(threat=threat)(model, x, y), worst)


def test_the_objective_keeps_its_promises():
    check_objective(LabelSmoothing(share=0.2))


def test_the_objective_without_a_share_is_the_cross_entropy():
    model, x, y = smooth(), images(6), labels(6, 5)
    torch.testing.assert_close(LabelSmoothing(share=0.0)(model, x, y).total, cross_entropy(model(x), y).mean())
    smoothed = torch.nn.functional.cross_entropy(model(x), y, label_smoothing=0.2)
    torch.testing.assert_close(LabelSmoothing(share=0.2)(model, x, y).total, smoothed)


def test_the_question_keeps_its_promises():
    split = checked(images(8), labels(8, 5), tuple("abcde"), "images")
    check_question(Entropy(), smooth(), split)


def test_equal_logits_have_the_largest_entropy():
    x = images(3)
    measured = Entropy().measure(lambda x: torch.zeros(len(x), 8), x, labels(3, 8), rng=None)["entropy"]
    torch.testing.assert_close(measured, torch.full((3,), 8.0, dtype=torch.float64).log())
