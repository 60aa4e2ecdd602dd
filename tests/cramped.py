"""Networks that run out of memory when they are asked about too many images at once."""

import numpy as np
import torch
from torch import nn

from holdfast.models.network import Network


def on_the_cpu():
    """The error of torch's allocator itself."""
    torch.empty(2**52)


def in_numpy():
    """The `MemoryError` of NumPy itself."""
    np.empty(2**52)


def on_a_gpu():
    """The error of CUDA's allocator, as PyTorch words it."""
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of ...")


ERRORS = {"cpu": on_the_cpu, "numpy": in_numpy, "gpu": on_a_gpu}


class Cramped(nn.Module):
    """A network without room for more than so many images, whose answers do not depend on the batch to the bit.

    Args:
        inner: asked image by image.
        most: images that fit; None for any number.
        fail: raises the error.
    """

    def __init__(self, inner, most=None, fail=on_the_cpu):
        super().__init__()
        self.inner, self.most, self.fail = inner, most, fail
        self.failures = 0

    def forward(self, x):
        if self.most is not None and len(x) > self.most:
            self.failures += 1
            self.fail()
        return torch.cat([self.inner(image[None]) for image in x])


def cramp(monkeypatch, condition, fail=on_the_cpu):
    """Let all of holdfast's networks run out of memory where the condition on network and images holds."""
    forward = Network.forward

    def cramped(self, x):
        if condition(self, x):
            fail()
        return forward(self, x)

    monkeypatch.setattr(Network, "forward", cramped)
