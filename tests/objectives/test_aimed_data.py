"""Attacked images do not depend on who asks for them when, and accuracies under them are those of each classifier."""

import math

import torch

from holdfast.attacks import PGD
from holdfast.ensembles import Composite, GradientRatio
from holdfast.objectives import aimed_data
from holdfast.objectives.aimed_data import Remembered, attacked, fits_in_memory, looked_at, pgd, right_answers
from holdfast.objectives.policy import _Batch
from holdfast.rng import permutation
from holdfast.threat import Linf
from tests.zoo import digits, digits_mlp, digits_robust, images, labels, linear

STRENGTHS = (0.0, 1.0, math.inf)


def composite():
    return Composite(linear(3, seed=1), linear(3, seed=2), GradientRatio(), 1.0)


def split(count=11):
    rows = permutation(count, 0, "test")
    return _Batch(images(count)[rows], labels(count, 3)[rows], 3 * rows)


class SeesItsBatch:
    """An attack whose result depends on the company of an image, as rounding may."""

    def __init__(self):
        self.calls = 0

    def __call__(self, model, x, y):
        self.calls += 1
        return (x + x.mean()) / 2


def asked(remembered, places, which, like):
    """What is remembered, after what is missing was made."""
    for block, strength in remembered.missing(places, which):
        remembered.make(block, strength, like)
    return remembered(places, which, like)


def test_an_image_is_the_same_whoever_asks_first_and_is_attacked_once(monkeypatch):
    monkeypatch.setattr(aimed_data, "BLOCK", 4)
    model, data = composite(), split()
    like = images(11)
    places, which = torch.tensor([3, 9, 0, 4, 3]), torch.tensor([0, 2, 1, 1, 0])
    one, other = (Remembered(SeesItsBatch(), model, data, STRENGTHS) for _ in range(2))
    whole = asked(one, places, which, like[:5])
    for row in (4, 1, 3, 0, 2):
        assert torch.equal(asked(other, places[[row]], which[[row]], like[:1])[0], whole[row])
    assert one.attack.calls == other.attack.calls == 4
    assert torch.equal(whole[0], whole[4])
    sorted_x = data.batch(data.index.argsort())[0]
    assert torch.equal(whole[1], (sorted_x[9] + sorted_x[8:11].mean()) / 2)


def test_remembered_images_are_those_of_an_attack_at_the_same_strength(monkeypatch):
    monkeypatch.setattr(aimed_data, "BLOCK", 4)
    model, data, attack = composite(), split(), pgd(Linf(0.1), 3, None)
    order = data.index.argsort()
    x, y = (values[order] for values in (data.x, data.y))
    places, which = torch.tensor([8, 1, 5]), torch.tensor([2, 0, 1])
    found = asked(Remembered(attack, model, data, STRENGTHS), places, which, x[:3])
    torch.testing.assert_close(found, attacked(attack, model, x[places], y[places], STRENGTHS, which))
    alone = PGD(threat=Linf(0.1), steps=3, random_start=False, until_lost=False)(model.robust, x[8:9], y[8:9])
    torch.testing.assert_close(found[:1], alone)


def test_right_answers_are_those_of_each_classifier_on_what_the_attack_finds():
    x, y = (values[-64:] for values in digits())
    g, h, attack = digits_mlp(), digits_robust(), pgd(Linf(0.1), 3, None)
    model = Composite(g, h, GradientRatio(gradients="largest"), 1.0)
    right = right_answers(attack, model, x, y, STRENGTHS)
    for place, inside in ((0, g), (2, h)):
        z = attack(inside, x, y)
        for row, judged in enumerate((g, h)):
            assert int(right[row, place]) == int((judged(z).argmax(1) == y).sum())
    assert right[0, 0] < right[0, 2]
    assert right[1, 0] > right[1, 2]


def test_many_images_are_looked_at_evenly_and_in_blocks(monkeypatch):
    monkeypatch.setattr(aimed_data, "LOOK", 5)
    monkeypatch.setattr(aimed_data, "BLOCK", 3)
    assert [rows.tolist() for rows in looked_at(split(11))] == [[0, 3, 6], [9]]


def test_what_does_not_fit_in_memory_is_not_remembered(monkeypatch):
    assert fits_in_memory(split(), STRENGTHS)
    monkeypatch.setattr(aimed_data, "MEMORY", 11 * 3 * 16 * 8 - 1)
    assert not fits_in_memory(split(), STRENGTHS)
