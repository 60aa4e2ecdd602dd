"""Evaluation mode during a call, and the modes as they were afterwards.

Public calls of attacks, certifiers and analyses are decorated with `in_evaluation_mode`: their results do not depend on
the mode that a network was left in. Code that chooses the modes itself, such as a training objective whose attack
normalises by the batch, passes `wrappers.InCurrentModes(model)` instead of the model.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, cast

from torch import nn

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@contextmanager
def evaluating(*models: object) -> Iterator[None]:
    """Put modules and their children in evaluation mode, and afterwards every flag back as it was.

    Flags are restored one by one: a BatchNorm frozen inside a network in train mode stays frozen. Networks are also
    reached in lists and tuples, in `functools.partial`, and behind wrappers that pass on the method `modules`. Anything
    else passes through: nobody can see the network inside of a plain function.
    """
    modules = [module for model in models for module in modules_of(model)]
    flags = [module.training for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, training in zip(modules, flags, strict=True):
            module.training = training


@contextmanager
def without_parameter_gradients(*models: object) -> Iterator[None]:
    """Parameters ask for no gradient inside, so that gradients of inputs cost less memory."""
    parameters = [one for model in models for module in modules_of(model) for one in module.parameters(recurse=False)]
    flags = [one.requires_grad for one in parameters]
    for one in parameters:
        one.requires_grad_(False)
    try:
        yield
    finally:
        for one, flag in zip(parameters, flags, strict=True):
            one.requires_grad_(flag)


def modules_of(model: object) -> Iterator[nn.Module]:
    """A network with all its children, and those of the networks that a collection or partial call holds."""
    method: Callable[[], Iterator[nn.Module]] | None = getattr(model, "modules", None)
    if callable(method):
        yield from method()
    elif isinstance(model, functools.partial):
        yield from modules_of((model.func, *model.args, *model.keywords.values()))
    elif isinstance(model, list | tuple):
        for part in model:
            yield from modules_of(part)


def in_evaluation_mode(call: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a function or method: every network among its arguments is in evaluation mode while it runs.

    A generator runs from one record to the next, and between them the modes are the caller's.
    """

    @functools.wraps(call)
    def evaluated(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with evaluating(*args, *kwargs.values()):
            return call(*args, **kwargs)

    @functools.wraps(call)
    def step_by_step(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Iterator[Any]:
        records = cast("Generator[Any, None, None]", call(*args, **kwargs))
        end = object()
        try:
            while True:
                with evaluating(*args, *kwargs.values()):
                    record = next(records, end)
                if record is end:
                    return
                yield record
        finally:
            with evaluating(*args, *kwargs.values()):
                records.close()

    return cast("Callable[Arguments, Result]", step_by_step) if inspect.isgeneratorfunction(call) else evaluated
