"""What a method must leave alone: the global random states, and everything about a module."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def random_states() -> tuple[Any, ...]:
    """The states of torch's, numpy's and Python's global generators, to be compared."""
    kind, keys, *rest = np.random.get_state(legacy=True)
    return torch.get_rng_state().tolist(), (kind, list(keys), rest), random.getstate()


@contextmanager
def same_random_states() -> Iterator[None]:
    """Fail where torch's, numpy's or Python's global random state changes inside."""
    before = random_states()
    yield
    for library, old, new in zip(("torch", "numpy", "Python"), before, random_states(), strict=True):
        assert old == new, f"{library}'s global random state changed"


def module_state(
    model: nn.Module, *, buffers: bool = True
) -> tuple[dict[str, Any], dict[str, bool], dict[str, Tensor]]:
    """Copies of all that can be seen of a module: weights, .grad, requires_grad, modes and buffers."""
    parameters = {
        name: (p.detach().clone(), None if p.grad is None else p.grad.clone(), p.requires_grad)
        for name, p in model.named_parameters()
    }
    modes = {name: module.training for name, module in model.named_modules()}
    return parameters, modes, {name: b.clone() for name, b in model.named_buffers()} if buffers else {}


@contextmanager
def same_module(model: nn.Module, *, buffers: bool = True) -> Iterator[None]:
    """Fail where weights, .grad, requires_grad, modes or buffers of a module change inside."""
    parameters, modes, kept = module_state(model, buffers=buffers)
    yield
    now, modes_now, kept_now = module_state(model, buffers=buffers)
    for name, (weight, grad, flag) in parameters.items():
        weight_now, grad_now, flag_now = now[name]
        assert torch.equal(weight, weight_now), f"the weights {name} changed"
        assert (grad is None) == (grad_now is None), f"{name}.grad changed"
        assert grad is None or torch.equal(grad, grad_now), f"{name}.grad changed"
        assert flag == flag_now, f"{name}.requires_grad changed"
    assert modes == modes_now, "the mode of a module changed"
    for name, buffer in kept.items():
        assert torch.equal(buffer, kept_now[name]), f"the buffer {name} changed"


@contextmanager
def same_tensors(*tensors: Tensor) -> Iterator[None]:
    """Fail where the values or flags of tensors change inside."""
    before = [(t, t.detach().clone(), t.requires_grad, t._version) for t in tensors]
    yield
    for tensor, copy, flag, version in before:
        assert torch.equal(tensor.detach(), copy), "an argument was changed in place"
        assert tensor.requires_grad == flag, "requires_grad of an argument changed"
        assert tensor._version == version, "an argument was written to"
