"""Networks of a stranger, for `--model python:tests.end_to_end.foreign:...`."""

import torch
from torch import nn


def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))


def narrow():
    """Too few logits."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))


def flat():
    """Logits without an axis for the classes."""
    return nn.Sequential(nn.Flatten(0), nn.Linear(64, 10))


def colour():
    """Wants three channels."""
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 10))


def raising():
    raise KeyError("no such\nthing")


def no_module():
    return 3


def needs_more(width):
    return nn.Linear(width, 10)


class Quarrelsome(nn.Module):
    """Built, but raises when called."""

    def forward(self, x):
        raise KeyError("not today")


class Nan(nn.Module):
    """Answers NaN."""

    def forward(self, x):
        return torch.full((len(x), 10), torch.nan)


class Same(nn.Module):
    """Answers every image alike, and passes a gradient of zero."""

    def forward(self, x):
        return torch.arange(10.0) + 0 * x.flatten(1)[:, :1]


class Rounded(nn.Module):
    """The network behind a rounding of its input, which hides its gradient."""

    def __init__(self):
        super().__init__()
        self.inner = network()

    def forward(self, x):
        return self.inner((8 * x).round() / 8)


value = 3
