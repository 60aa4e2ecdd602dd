"""A network's names and shapes without its weights, so that its needs are known before memory is allocated.

A recipe or a weights file of a few bytes can describe a network of terabytes. The same code builds it once on PyTorch's
device `meta`, whose tensors have shapes and no values, while the parts are counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as registration
from torch.overrides import TorchFunctionMode

from holdfast.types import Architecture

MOST_PARTS = 20_000
"""Largest number of layers and tensors of a network; the deepest that holdfast builds has some thousands."""
LARGEST = 100_000
"""Largest whole number among an architecture's fields, such as a number of channels."""


def planned(architecture: Architecture, shape: tuple[int, int, int], classes: int) -> nn.Module:
    """The network on the device `meta`.

    Raises:
        ValueError: in one line, if it cannot be built or has too many parts.
    """
    require_sizes(architecture)
    with _counted_parts(), torch.device("meta"), _WithoutValues():
        try:
            return architecture(shape, classes)
        except (RuntimeError, TypeError, ArithmeticError, MemoryError) as error:
            line = str(error).strip().partition("\n")[0]
            raise ValueError(f"cannot be built: {type(error).__name__}: {line}") from error


def require_sizes(architecture: object) -> None:
    """Refuse negative and huge whole numbers among the fields of an architecture.

    Raises:
        ValueError: naming the first.
    """
    for name, value in _numbers(architecture, ""):
        if not 0 <= value <= LARGEST:
            raise ValueError(f"{name}: expected at most {LARGEST:,} and nothing negative; got {value}")


def bytes_of(model: nn.Module) -> int:
    """Memory for parameters and buffers, also of a network on the device `meta`."""
    tensors = (*model.parameters(), *model.buffers())
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _numbers(value: Any, name: str) -> Iterator[tuple[str, int]]:
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _numbers(getattr(value, field.name), field.name)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _numbers(one, name)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _numbers(one, f"{name}.{key}")
    elif isinstance(value, int) and not isinstance(value, bool):
        yield name, value


class _WithoutValues(TorchFunctionMode):
    """Skip functions that fill tensors: on `meta` they have no effect, and their first use imports for seconds."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        fills = name.endswith("_") and not name.startswith("_")
        if fills and args and isinstance(args[0], torch.Tensor) and args[0].is_meta:
            return args[0]
        return func(*args, **(kwargs or {}))


@contextmanager
def _counted_parts() -> Iterator[None]:
    """Stop the building of a network that has too many parts."""
    count = 0

    def add(*_: object) -> None:
        nonlocal count
        count += 1
        if count > MOST_PARTS:
            raise ValueError(f"expected a network of at most {MOST_PARTS:,} layers and tensors")

    hooks = [
        registration.register_module_module_registration_hook(add),
        registration.register_module_parameter_registration_hook(add),
        registration.register_module_buffer_registration_hook(add),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
