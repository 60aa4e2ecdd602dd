"""Networks and images that the benchmarks measure on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.attacks import FGSM
from holdfast.data.digits import Digits
from holdfast.models import MODELS, build, read_state
from holdfast.rng import permutation
from holdfast.threat import Linf

LAYERS = {"conv1": "body.0.0", "conv2": "body.1.0", "linear1": "body.3.0", "linear2": "head"}


class Subjects(NamedTuple):
    """A robust and a standard network with images for both."""

    name: str
    robust: nn.Module
    standard: nn.Module
    x: Tensor
    y: Tensor
    eps: float


def published(root: Path, name: str) -> nn.Module:
    """A LeNet for MNIST: `standard` or `adversarial`."""
    model = build(MODELS["lenet"], (1, 28, 28), 10)
    state = model.state_dict()
    for key, value in read_state(root / "weights" / f"mnist_lenet5_{name}.safetensors").items():
        layer, _, kind = key.rpartition(".")
        state[f"{LAYERS[layer]}.{kind}"] = value
    model.load_state_dict(state)
    return model.eval()


def trained(x: Tensor, y: Tensor, eps: float) -> nn.Module:
    """A LeNet trained on images given, against one-step attacks if `eps` is positive."""
    model = build(MODELS["lenet"], (1, 28, 28), 10)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(6):
        for rows in permutation(len(x), epoch, "benchmark").split(64):
            z = FGSM(threat=Linf(eps))(model, x[rows], y[rows]) if eps else x[rows]
            optimizer.zero_grad()
            F.cross_entropy(model(z), y[rows]).backward()
            optimizer.step()
    return model.eval()


def subjects(count: int) -> Subjects:
    """LeNets of MNIST where HOLDFAST_DATA has them, else trained on enlarged digits, with the first test images."""
    given = os.environ.get("HOLDFAST_DATA")
    if given is not None:
        with np.load(Path(given) / "mnist.npz") as arrays:
            x, y = (torch.from_numpy(arrays[name][:count]) for name in ("x_test", "y_test"))
        networks = [published(Path(given), name) for name in ("adversarial", "standard")]
        return Subjects("lenet, MNIST", networks[0], networks[1], x[:, None].float() / 255, y.long(), 0.3)
    data = Digits()()
    (x, y), (x_test, y_test) = data.train.batch(slice(None)), data.test.batch(slice(count))
    x, x_test = (F.interpolate(images, size=28, mode="bilinear") for images in (x, x_test))
    return Subjects("lenet, digits at 28x28", trained(x, y, 0.1), trained(x, y, 0.0), x_test, y_test, 0.1)
