"""A published robust accuracy, where HOLDFAST_DATA points to the network."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.attacks import PGD
from holdfast.models import MODELS, build, read_state
from holdfast.threat import Linf

DATA = os.environ.get("HOLDFAST_DATA")
pytestmark = pytest.mark.skipif(DATA is None, reason="HOLDFAST_DATA is not set")

LAYERS = {"conv1": "body.0.0", "conv2": "body.1.0", "linear1": "body.3.0", "linear2": "head"}


def network(name):
    model = build(MODELS["lenet"], (1, 28, 28), 10)
    state = model.state_dict()
    for key, value in read_state(Path(DATA) / "weights" / f"mnist_lenet5_{name}.safetensors").items():
        layer, _, kind = key.rpartition(".")
        state[f"{LAYERS[layer]}.{kind}"] = value
    model.load_state_dict(state)
    return model.eval()


def images(count):
    with np.load(Path(DATA) / "mnist.npz") as arrays:
        x, y = arrays["x_test"][:count], arrays["y_test"][:count]
    return torch.from_numpy(x)[:, None].float() / 255, torch.from_numpy(y).long()


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
    assert robust(network("adversarial"), attack, *images(500)) == pytest.approx(published, abs=0.0041)


def test_standard_lenet_does_not_hold_at_all():
    assert robust(network("standard"), PGD(threat=Linf(0.3), steps=40, step_size=0.01), *images(500)) == 0
