"""Which networks are affine: what is proved of straight logits is proved of no others."""

from __future__ import annotations

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

OPERATIONS = frozenset(
    {"add", "sub", "mul", "truediv", "div", "flatten", "reshape", "view", "permute", "mean", "sum", "getitem", "neg"}
)
"""Operations that are affine in their first argument, or, of `add` and `sub`, in both."""


def check_affine(model: nn.Module, who: str) -> None:
    """Refuse a network unless its forward pass is, operation by operation, affine in the input.

    Args:
        model: the network; it is judged in evaluation mode.
        who: asks, for the message.

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
        return type(layer) in LAYERS and not untracked
    name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
    only_first = inputs == [node.args[0]] and sum(arg is inputs[0] for arg in node.args) == 1
    return name in OPERATIONS and (only_first or name in ("add", "sub"))


def _name(root: nn.Module, node: fx.Node) -> str:
    if node.op == "call_module":
        place = str(node.target).removeprefix("model").lstrip(".")
        return f"{type(root.get_submodule(str(node.target))).__name__} at {place or 'the top'}"
    return str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", str(node.target))
