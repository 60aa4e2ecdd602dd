"""Temporary replacement of a network's tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


@contextmanager
def temporarily_replaced(
    whole: Sequence[object], tensors: Sequence[Tensor], others: Sequence[Tensor]
) -> Iterator[None]:
    """Replace parameters or buffers of modules wherever they occur, and put the same objects back afterwards.

    Not `torch.func.functional_call`: of a module that has two names, as in Fabric's wrapper, it puts the replacement
    back in place of the original.

    Args:
        whole: the modules; anything else among them is ignored.
        tensors: the tensors to replace.
        others: their replacements.
    """
    new = {id(old): other for old, other in zip(tensors, others, strict=True)}
    places = [
        (store, name, tensor)
        for module in _modules(whole)
        for store in (module._parameters, module._buffers)
        for name, tensor in store.items()
        if id(tensor) in new
    ]
    for store, name, tensor in places:
        store[name] = new[id(tensor)]
    try:
        yield
    finally:
        for store, name, tensor in places:
            store[name] = tensor


def buffers_of(whole: Sequence[object]) -> list[Tensor]:
    """All buffers of the modules."""
    return [buffer for module in _modules(whole) for buffer in module.buffers(recurse=False)]


def _modules(whole: Sequence[object]) -> list[Any]:
    """All modules, each once."""
    modules = (module for one in whole if isinstance(one, nn.Module) for module in one.modules())
    return list(dict.fromkeys(modules))
