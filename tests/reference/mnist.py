"""Published MNIST networks and their images, where HOLDFAST_DATA points to them."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.models import MODELS, build, read_state

DATA = os.environ.get("HOLDFAST_DATA")
LAYERS = {"conv1": "body.0.0", "conv2": "body.1.0", "linear1": "body.3.0", "linear2": "head"}
needed = pytest.mark.skipif(DATA is None, reason="HOLDFAST_DATA is not set")


def lenet(name):
    """The `standard` or the `adversarial` network."""
    model = build(MODELS["lenet"], (1, 28, 28), 10)
    state = model.state_dict()
    for key, value in read_state(Path(DATA) / "weights" / f"mnist_lenet5_{name}.safetensors").items():
        layer, _, kind = key.rpartition(".")
        state[f"{LAYERS[layer]}.{kind}"] = value
    model.load_state_dict(state)
    return model.eval()


def mnist(count):
    """The first test images and their labels."""
    with np.load(Path(DATA) / "mnist.npz") as arrays:
        x, y = arrays["x_test"][:count], arrays["y_test"][:count]
    return torch.from_numpy(x)[:, None].float() / 255, torch.from_numpy(y).long()
