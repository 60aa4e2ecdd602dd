"""Conditions of a forward pass: nothing in it behaves as in training."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from holdfast.types import Classifier
from holdfast.verdicts import Verdict

TRAINABLE: Mapping[Callable[..., Any], str] = {
    F.batch_norm: "batch_norm",
    F.dropout: "dropout",
    F.dropout1d: "dropout1d",
    F.dropout2d: "dropout2d",
    F.dropout3d: "dropout3d",
    F.alpha_dropout: "alpha_dropout",
    F.feature_alpha_dropout: "feature_alpha_dropout",
    F.rrelu: "rrelu",
}
"""Functions that have a training flag; the layers of `torch.nn` call them as well."""


class Watch(TorchFunctionMode):
    """Counts calls that behave as in training, wherever they come from.

    Flags of modules are not enough: a forward pass may call `self.train()`, keep layers in a plain list that `eval()`
    does not reach, leave `training` of `F.dropout` at its default, or have BatchNorm without running statistics.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look at the call, then let it happen."""
        if func in TRAINABLE:
            call = inspect.signature(func).bind(*args, **(kwargs or {}))
            if call.arguments["training"] and call.arguments.get("p") != 0:
                self.seen[TRAINABLE[func]] += 1
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def train_mode(model: Classifier, x: Tensor) -> Verdict:
    """Does anything in a forward pass behave as in training, although the model was put in eval mode?"""
    with Watch() as watch:
        model(x)
    calls = watch.seen.total()
    names = ", ".join(f"{name} ({count})" for name, count in sorted(watch.seen.items()))
    return Verdict(
        flag="train-mode",
        level="fail" if calls else "pass",
        finding=f"calls that behave as in training although the model is in eval mode: {names or 'none'}",
        remedy="pass training=self.training, do not call train() in forward, keep layers where eval() reaches them, "
        "and give BatchNorm running statistics"
        if calls
        else "",
        evidence="model",
        value=float(calls),
        limit=0.0,
    )
