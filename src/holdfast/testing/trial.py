"""What the contracts share: trying promises one by one, and comparing what two calls return."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from holdfast.promises import broken_promise

Module = TypeVar("Module", bound=nn.Module)


def try_promises(
    protocol: Any,
    method: object,
    promises: Iterable[Callable[..., Any]],
    *,
    without: Collection[Callable[..., Any]] = (),
    options: Mapping[Callable[..., Any], Mapping[str, Any]] | None = None,
    of: object = None,
) -> None:
    """Try the protocol and then the promises of a family on one of its methods.

    Args:
        protocol: what the family is, such as `Attack`.
        method: an attack, an objective, ...
        promises: functions of it, whose docstrings state them.
        without: those that it does not make.
        options: further arguments of some.
        of: what the promises are functions of, in place of the method itself.

    Raises:
        AssertionError: naming the method, the first promise that it breaks, and how.
    """
    problem = broken_promise(protocol, method)
    assert problem is None, problem
    for promise in [promise for promise in promises if promise not in without]:
        try:
            promise(method if of is None else of, **(options or {}).get(promise, {}))
        except Exception as error:  # a foreign method may raise anything
            how = str(error) if isinstance(error, AssertionError) else f"raised {type(error).__name__}: {error}"
            name = getattr(method, "__name__", type(method).__name__)
            stated = (inspect.getdoc(promise) or "").partition("\n")[0]
            raise AssertionError(f"{name} breaks the promise {promise.__name__} ({stated}): {how}") from error


def require_kind(value: object, kind: type[Any], what: str) -> None:
    """Fail where a method returns something of another kind."""
    assert isinstance(value, kind), f"expected {what}; got {'None' if value is None else type(value).__name__}"


def same_values(one: Tensor, other: Tensor, what: str, *, relative: float = 0.0, absolute: float = 1e-9) -> None:
    """Fail where two tensors differ by more than rounding."""
    assert one.shape == other.shape, f"{what} have other shapes: {tuple(one.shape)} and {tuple(other.shape)}"
    difference = float((one - other).detach().abs().max()) if one.numel() else 0.0
    assert torch.allclose(one, other, rtol=relative, atol=absolute), f"{what} differ by up to {difference:g}"


def with_gradients(model: Module) -> Module:
    """A network some of whose parameters have gradients, and one of which wants none."""
    for number, parameter in enumerate(model.parameters()):
        parameter.grad = torch.full_like(parameter, 0.5) if number % 2 else None
    list(model.parameters())[1].requires_grad_(False)
    return model
