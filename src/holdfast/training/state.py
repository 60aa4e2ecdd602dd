"""Whether a training state is one that this training could have written; a file may say anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from holdfast.errors import CheckpointError
from holdfast.models.weights import DTYPES
from holdfast.records import check_fields

CHANGING = frozenset({"params", "lr"})
"""Fields of an optimizer's groups that training changes, or that name its parameters."""


class _Judge(BaseModel):
    best: float
    stale: int


class _Optimizer(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    state: dict[int, dict[str, Any]]
    param_groups: list[dict[str, Any]]


class _State(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True, protected_namespaces=())
    model: dict[str, Any]
    optimizer: _Optimizer
    mean: dict[str, Any] | None
    objective: dict[str, Any] | None
    judge: _Judge
    step: int
    finished: int
    sums: dict[str, float]
    seconds: float
    step_seconds: float = 0.0
    collapsed_epochs: int = 0


def check_state(state: Any) -> dict[str, Any]:
    """A state, once its fields have their types and its tensors are dense numbers in memory.

    Raises:
        ValueError: in one line.
    """
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise ValueError(f"expected fields by name; got {type(state).__name__}")
    check_fields(_State, {name: dict(value) if isinstance(value, Mapping) else value for name, value in state.items()})
    for name, tensor in _tensors(state, "state"):
        if tensor.layout != torch.strided or tensor.dtype not in DTYPES or tensor.device.type != "cpu":
            raise ValueError(f"{name}: expected dense numbers; got {tensor.dtype}, {tensor.layout}, {tensor.device}")
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise ValueError(f"{name}: expected all values; it repeats a few that it holds")
    return state


START_OVER = "start over with --fresh (in Python, fresh=True)"
"""The remedy for what cannot be resumed."""


@contextmanager
def of_this_recipe(path: Path) -> Iterator[None]:
    """Whatever a state that does not fit raises, in one line.

    Args:
        path: of the state.

    Raises:
        CheckpointError: in its place.
    """
    try:
        yield
    except (RuntimeError, ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:
        line = str(error).partition("\n")[0] or type(error).__name__
        raise CheckpointError(f"{path}: expected training state of this recipe ({line}); {START_OVER}") from None


def check_progress(state: Mapping[str, Any], per_epoch: int) -> None:
    """Refuse counts that do not fit to each other.

    Raises:
        ValueError: saying which.
    """
    step, done = state["step"], state["finished"] * per_epoch
    if not 0 <= done <= step <= done + per_epoch:
        raise ValueError(f"expected a step within epoch {state['finished'] + 1}; got {step} of {per_epoch} each")
    if step > done and not (state["sums"].keys() >= {"total", "examples"} and state["sums"]["examples"] > 0):
        raise ValueError("expected the sums of an epoch that has begun")


def check_optimizer(
    state: Mapping[str, Any], groups: list[dict[str, Any]], make: Callable[[Iterable[Tensor]], torch.optim.Optimizer]
) -> None:
    """Refuse the state of another optimizer, or of other parameters.

    Args:
        state: of the file.
        groups: of the optimizer that goes on.
        make: makes an optimizer of that kind, to see what it remembers of a parameter.

    Raises:
        ValueError: saying what differs.
    """
    _check_groups(state["param_groups"], groups)
    kinds, parameters = _remembered(make), [parameter for group in groups for parameter in group["params"]]
    for number, values in state["state"].items():
        if not 0 <= number < len(parameters) or values.keys() != kinds.keys():
            raise ValueError(f"expected what the optimizer remembers of each parameter; got {sorted(values)[:4]}")
        for name, value in values.items():
            shape = tuple(parameters[number].shape) if kinds[name] == (1, 1) else kinds[name]
            if _shape(value) != shape:
                raise ValueError(f"optimizer: {name}: expected a tensor of shape {shape}; got {_shape(value)}")


def _check_groups(stored: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]]) -> None:
    """Refuse groups of parameters with other fields than those of the optimizer that goes on."""
    if len(stored) != len(groups):
        raise ValueError(f"expected {len(groups)} groups of parameters; got {len(stored)}")
    for group, own in zip(stored, groups, strict=True):
        fields = [name for name in own if name not in CHANGING and (name not in group or group[name] != own[name])]
        if fields or group.keys() - own.keys() or group.get("params") != list(range(len(own["params"]))):
            what = f"{fields[0]} differs" if fields else "parameters differ"
            raise ValueError(f"expected the optimizer of the recipe; its {what}")


def _remembered(make: Callable[[Iterable[Tensor]], torch.optim.Optimizer]) -> dict[str, Any]:
    """What an optimizer remembers of a parameter of shape (1, 1) after a step, and of which shapes that is."""
    parameter = nn.Parameter(torch.zeros(1, 1))
    parameter.grad = torch.zeros(1, 1)
    optimizer = make([parameter])
    optimizer.step()
    return {name: _shape(value) for name, value in optimizer.state[parameter].items()}


def _shape(value: Any) -> Any:
    return tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__


def _tensors(value: Any, name: str) -> Iterable[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _tensors(inner, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _tensors(inner, name)
