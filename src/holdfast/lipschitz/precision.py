"""A network in float64 with the weights that it has, whatever its own precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from holdfast.errors import ModelError
from holdfast.lipschitz.export import export
from holdfast.lipschitz.rounding import double

PRECISIONS = (torch.float32, torch.float64)
"""Precisions in which certificates are meaningful; the rounding of coarser ones decides within most radii."""


class Promoted(TorchFunctionMode):
    """A context with float64 in place of float32: arguments and results of functions, and casts.

    Constants of a forward pass, and its casts to float32, then round nothing.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The function in float64."""
        call = Tensor.double if func is Tensor.float else func
        return _promoted(call(*_promoted(tuple(args)), **_promoted(dict(kwargs or {}))))


def _promoted(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.double() if value.dtype == torch.float32 and value.device.type != "mps" else value
    if type(value) in (list, tuple):
        return type(value)(map(_promoted, value))
    if type(value) is dict:
        return {name: _promoted(each) for name, each in value.items()}
    return torch.float64 if value is torch.float32 else value


def require_precision(model: object, who: str) -> None:
    """Refuse a network with weights that are coarser than float32."""
    tensors = dict(model.named_parameters()) | dict(model.named_buffers()) if isinstance(model, nn.Module) else {}
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.dtype not in PRECISIONS:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise ModelError(
                f"{who}: expected weights in float32 or float64, got {kind} ('{name}'): rounding of its logits exceeds "
                "most radii; certify model.float()"
            )


def in_float64(model: nn.Module) -> nn.Module:
    """A copy that computes in float64, in evaluation mode; orthogonal layers keep the weights they have."""
    copied = export(model).eval()
    on_cpu = any(each.device.type == "mps" for each in copied.parameters())  # which has no float64
    return (copied.cpu() if on_cpu else copied).double()


def logits_in_float64(copied: nn.Module, x: Tensor) -> Tensor:
    """Logits of such a copy, computed without cuDNN, whose convolutions are not always sums of products."""
    with Promoted(), torch.backends.cudnn.flags(enabled=False):
        logits: Tensor = copied(double(x))
    return logits
