"""A published robust accuracy, where HOLDFAST_DATA points to the network."""

import pytest
import torch

from holdfast.attacks import PGD
from holdfast.threat import Linf
from tests.reference.mnist import lenet, mnist, needed

pytestmark = needed


def robust(model, attack, x, y):
    with torch.no_grad():
        return float((model(attack(model, x, y)).argmax(1) == y).double().mean())


@pytest.mark.parametrize(
    ("random_start", "published"),
    [
        # First 500 test images, PGD-40, eps 0.3, step 0.01: 91.4 %, identical in 8 libraries.
        (False, 0.914),
        # The way of 40 * 0.01 does not cross the ball, so random starts are weaker: torchattacks 3.5.1 finds 93.6 % and
        # 93.2 % with seeds 0 and 1.
        (True, 0.934),
    ],
)
def test_adversarially_trained_lenet_has_its_published_robust_accuracy(random_start, published):
    attack = PGD(threat=Linf(0.3), steps=40, step_size=0.01, random_start=random_start)
    assert robust(lenet("adversarial"), attack, *mnist(500)) == pytest.approx(published, abs=0.0041)


def test_standard_lenet_does_not_hold_at_all():
    assert robust(lenet("standard"), PGD(threat=Linf(0.3), steps=40, step_size=0.01), *mnist(500)) == 0
