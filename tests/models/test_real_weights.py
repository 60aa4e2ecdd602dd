"""Published MNIST networks, where HOLDFAST_DATA points to them."""

import os
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from holdfast.models import MODELS, build, load_weights, normalised, read_state, write_weights
from holdfast.models.cnn import CNN

DATA = os.environ.get("HOLDFAST_DATA")
pytestmark = pytest.mark.skipif(DATA is None, reason="HOLDFAST_DATA is not set")


def lenet():
    """The network of the files, with their names."""
    layers = OrderedDict(
        conv1=nn.Conv2d(1, 32, 3, padding=1),
        relu1=nn.ReLU(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(32, 64, 3, padding=1),
        relu2=nn.ReLU(),
        pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        linear1=nn.Linear(3136, 200),
        relu3=nn.ReLU(),
        linear2=nn.Linear(200, 10),
    )
    return nn.Sequential(layers)


@pytest.fixture(scope="module")
def mnist():
    with np.load(Path(DATA) / "mnist.npz") as arrays:
        return torch.from_numpy(arrays["x_test"])[:, None].float() / 255, torch.from_numpy(arrays["y_test"]).long()


def accuracy(model, x, y):
    with torch.no_grad():
        hits = sum(int((model(a).argmax(1) == b).sum()) for a, b in zip(x.split(500), y.split(500), strict=True))
    return hits / len(x)


@pytest.mark.parametrize(("name", "published"), [("standard", 0.9889), ("adversarial", 0.9864)])
def test_foreign_network_reaches_its_published_accuracy(mnist, name, published):
    path = Path(DATA) / "weights" / f"mnist_lenet5_{name}.safetensors"
    bare, behind = lenet(), normalised(lenet(), [0.0], [1.0])
    load_weights(bare, path)
    load_weights(behind, path)
    assert accuracy(bare.eval(), *mnist) == pytest.approx(published, abs=2e-4)
    assert torch.equal(bare(mnist[0][:10]), behind(mnist[0][:10]))


@pytest.mark.parametrize(
    ("file", "architecture", "names", "published"),
    [
        (
            "mnist_lenet5_standard",
            MODELS["lenet"],
            {"conv1": "body.0.0", "conv2": "body.1.0", "linear1": "body.3.0", "linear2": "head"},
            0.9889,
        ),
        (
            "mnist_cnn_certified_eps01",
            CNN(stride=2, hidden=(100,), feature_dim=None),
            {"0": "body.0.0", "2": "body.1.0", "5": "body.3.0", "7": "head"},
            0.9811,
        ),
    ],
)
def test_own_network_is_the_published_one(mnist, tmp_path, file, architecture, names, published):
    model = build(architecture, (1, 28, 28), 10)
    state = {key: value for key, value in model.state_dict().items() if key.startswith("normalise")}
    for key, value in read_state(Path(DATA) / "weights" / f"{file}.safetensors").items():
        layer, _, kind = key.rpartition(".")
        state[f"{names[layer]}.{kind}"] = value
    write_weights(tmp_path / "w.safetensors", state, {})
    load_weights(model, tmp_path / "w.safetensors")
    assert accuracy(model.eval(), *mnist) == pytest.approx(published, abs=2e-4)
