"""Evaluation mode for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Put a module and its children in eval mode, and afterwards every flag back as it was.

    Flags are restored one by one: a BatchNorm frozen inside a network in train mode stays frozen. Anything that is not
    an `nn.Module` (a plain function) passes through.
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    flags = [module.training for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, training in zip(modules, flags, strict=True):
            module.training = training
