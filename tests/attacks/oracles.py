"""Other libraries' minimum-norm attacks as black boxes on a network trained on the digits."""

import warnings

import pytest
import torch

from tests.zoo import digits, digits_cnn

with warnings.catch_warnings():  # they import things that others have deprecated
    warnings.simplefilter("ignore")
    foolbox = pytest.importorskip("foolbox")
    torchattacks = pytest.importorskip("torchattacks")


def subject(count=60):
    """The network, and images that it gets right."""
    x, y = digits()
    model = digits_cnn()
    with torch.no_grad():
        right = (model(x).argmax(1) == y).nonzero()[:count, 0]
    return model, x[right], y[right]


def by_foolbox(attack, model, x, y):
    """Points found by an attack of foolbox."""
    wrapped = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
    return attack.run(wrapped, x, foolbox.criteria.Misclassification(y))


def distances(threat, model, z, x, y):
    """Distance of each success; infinite where there is none."""
    with torch.no_grad():
        wrong = model(z).argmax(1) != y
    return torch.where(wrong, threat.distance(z, x), torch.inf)
