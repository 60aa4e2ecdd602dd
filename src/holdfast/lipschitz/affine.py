"""A check that a network is affine, for theorems about affine logits."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn

from holdfast.errors import ModelError
from holdfast.lipschitz.graph import Root, trace
from holdfast.modes import evaluating

LAYERS = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.AvgPool3d,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveAvgPool3d,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
    nn.Dropout,
    nn.Flatten,
    nn.Unflatten,
    nn.Identity,
)
"""Layers that are affine in evaluation mode; subclasses may be anything."""

FUNCTIONS: dict[Callable[..., Any], str] = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.truediv: "div",
    operator.neg: "neg",
    operator.getitem: "getitem",
    torch.add: "add",
    torch.sub: "sub",
    torch.mul: "mul",
    torch.div: "div",
    torch.neg: "neg",
    torch.flatten: "flatten",
    torch.reshape: "reshape",
    torch.permute: "permute",
    torch.mean: "mean",
    torch.sum: "sum",
}
"""Functions by the name of their operation."""

OPERATIONS = frozenset({*FUNCTIONS.values(), "view"})
"""Operations that are affine in their first argument, or, of `add` and `sub`, in both."""

OPTIONS = frozenset({"dim", "keepdim", "start_dim", "end_dim"})
"""Keywords that leave them affine; `rounding_mode`, for one, does not."""


def check_affine(model: nn.Module, who: str) -> None:
    """Refuse a network unless its forward pass is, operation by operation, affine in the input.

    Args:
        model: the network; it is checked in evaluation mode.
        who: name of the caller, for the message.

    Raises:
        ModelError: naming the first operation that is not.
    """
    with evaluating(model):
        root = Root(model)
        moved: set[fx.Node] = set()
        for node in trace(root, "").nodes:
            inputs = [each for each in node.all_input_nodes if each in moved]
            if node.op == "placeholder":
                moved.add(node)
            elif inputs and node.op != "output":
                if not _is_affine(root, node, inputs):
                    raise ModelError(f"{who}: expected logits that are affine in the image; {_name(root, node)} is not")
                moved.add(node)


def _is_affine(root: nn.Module, node: fx.Node, inputs: list[fx.Node]) -> bool:
    if node.op == "call_module":
        layer = root.get_submodule(str(node.target))
        untracked = isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.running_mean is None
        hooked = bool(layer._forward_hooks or layer._forward_pre_hooks)
        return type(layer) in LAYERS and not untracked and not hooked
    if not node.kwargs.keys() <= OPTIONS or any(isinstance(value, fx.Node) for value in node.kwargs.values()):
        return False
    target: Any = node.target
    name = str(target) if node.op == "call_method" else FUNCTIONS.get(target, "")
    only_first = inputs == [node.args[0]] and sum(arg is inputs[0] for arg in node.args) == 1
    return name in OPERATIONS and (only_first or name in ("add", "sub"))


def _name(root: nn.Module, node: fx.Node) -> str:
    if node.op == "call_module":
        place = str(node.target).removeprefix("model").lstrip(".")
        return f"{type(root.get_submodule(str(node.target))).__name__} at {place or 'the top'}"
    return str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", str(node.target))
