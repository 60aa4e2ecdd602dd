"""Confidence at images and around them."""

import pytest
import torch

from holdfast.questions.sureness import confidences, sureness
from holdfast.rng import Streams
from holdfast.threat import L2, Linf
from tests.objectives.logistic import F, Logistic, X, Y
from tests.zoo import half_space, half_space_points, images, labels, smooth

PARTS = ("likeliest", "true", "right")


def test_closed_form_of_a_wrong_logistic_regression():
    """Table 6 of the method: f = 0.475 for the true class, so that the other one is likelier and wrong."""
    found = sureness(Logistic(), X, Y)
    assert float(found.true) == pytest.approx(F, abs=1e-9)
    assert float(found.likeliest) == pytest.approx(1 - F, abs=1e-9)
    assert not bool(found.right)
    other = sureness(Logistic(), X, 1 - Y)
    assert bool(other.right)
    assert float(other.true) == float(other.likeliest) == pytest.approx(1 - F, abs=1e-9)


def test_points_are_the_images_random_ones_of_the_threat_and_those_of_one_step():
    seen, model, x, y = [], smooth(), images(6), labels(6, 5)

    def watching(z):
        seen.append(z.detach())
        return model(z)

    found = confidences(watching, x, y, threat=L2(0.3), rng=Streams(0, "c", 6))
    _, clean, random, moved = seen
    assert torch.equal(clean, x)
    for points, values in ((clean, found.clean), (random, found.random), (moved, found.pgd1)):
        assert float((points - x).flatten(1).norm(dim=1).max()) <= 0.3 + 1e-9
        probabilities = model(points).softmax(1).detach()
        torch.testing.assert_close(values.likeliest, probabilities.amax(1))
        torch.testing.assert_close(values.true, probabilities[torch.arange(6), y])
        assert torch.equal(values.right, probabilities.argmax(1) == y)
    assert float((random - x).abs().max()) > 0.01
    again = confidences(model, x[2:5], y[2:5], threat=L2(0.3), rng=Streams(0, "c", 6)[2:5])
    for kind in ("random", "pgd1"):
        for part in PARTS:
            torch.testing.assert_close(getattr(getattr(again, kind), part), getattr(getattr(found, kind), part)[2:5])


def test_one_step_makes_a_right_half_space_less_sure():
    model = half_space()
    x, y = half_space_points(model)
    threat = Linf(float((model.signed(x).abs().min() / model.weight.abs().sum()).detach()))  # nobody changes sides
    found = confidences(model, x, y, threat=threat)
    assert bool((found.pgd1.likeliest < found.clean.likeliest).all())
    assert bool(found.pgd1.right.all())
    torch.testing.assert_close(found.pgd1.true, found.pgd1.likeliest)


def test_a_smaller_radius_has_the_same_points_nearer():
    seen, x, y = [], 0.25 + 0.5 * images(4), labels(4, 5)  # far from the edges of the box

    def watching(z):
        seen.append(z.detach())
        return smooth()(z)

    for eps in (0.1, 0.2):
        confidences(watching, x, y, threat=Linf(eps), rng=Streams(3, "c", 4))
    torch.testing.assert_close(2 * (seen[2] - x), seen[6] - x)
