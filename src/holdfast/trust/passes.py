"""Conditions of what reaches a network and its layers: images in [0, 1], scaled and treated as the network expects.

Flags of modules are not enough to see how layers behave: a forward pass may call `self.train()`, keep layers in a plain
list that `eval()` does not reach, leave `training` of `F.dropout` at its default, or have BatchNorm without running
statistics. So the functions are watched that all of these call.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from holdfast.modes import in_evaluation_mode
from holdfast.trust.verdict import Verdict, judged
from holdfast.types import Classifier

DARK = 2 / 255
"""Images whose brightest value is below this were probably divided by 255 twice."""

OUTSIDE = "scale images to [0, 1] and let the network normalise them (--mean, --std): eps is in these units"
BLACK = "the images are almost black: check that they were not divided by 255 twice"


def input_range(x: Tensor) -> Verdict:
    """Do the images lie in [0, 1], and do they use it?"""
    low, high = float(x.min()), float(x.max())
    outside = float(((x < 0) | (x > 1) | x.isnan()).double().mean())
    return judged(
        "input-range",
        "fail" if outside else "warn" if high < DARK else "pass",
        f"values from {low:zg} to {high:zg}, {100 * outside:.1f} % of them outside of [0, 1]",
        remedy=OUTSIDE if outside else BLACK,
        evidence="model",
        value=outside,
        limit=0.0,
    )


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


TRAINING = (
    "pass training=self.training, do not call train() in forward, keep layers where eval() reaches them, and give "
    "BatchNorm running statistics"
)


class TrainingCalls(TorchFunctionMode):
    """Counts calls that behave as in training, wherever they come from."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look at the call, then let it happen."""
        if func in TRAINABLE:
            arguments = _arguments(func, args, kwargs)
            if arguments["training"] and arguments.get("p") != 0:
                self.seen[TRAINABLE[func]] += 1
        return func(*args, **(kwargs or {}))


def _arguments(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """All arguments of a call by name, defaults included."""
    call = inspect.signature(func).bind(*args, **(kwargs or {}))
    call.apply_defaults()
    return call.arguments


@torch.no_grad()
def train_mode(model: Classifier, x: Tensor) -> Verdict:
    """Does anything in a forward pass behave as in training, although the model was put in eval mode?"""
    with TrainingCalls() as watch:
        model(x)
    calls = watch.seen.total()
    names = ", ".join(f"{name} ({count})" for name, count in sorted(watch.seen.items()))
    return judged(
        "train-mode",
        "fail" if calls else "pass",
        f"calls that behave as in training although the model is in eval mode: {names or 'none'}",
        remedy=TRAINING,
        evidence="model",
        value=float(calls),
        limit=0.0,
    )


FACTOR = 4.0
"""How much the variance of the median channel may differ; honest networks stay within 2."""

RESCALED = (
    "the images are scaled otherwise than in training: check the normalisation (--mean and --std; in Python mean= and "
    "std=); or training was too short for running statistics"
)
UNTRAINED = "batch normalisation has the statistics it was made with: load trained weights (--weights)"


@dataclass(frozen=True)
class Recorded:
    """The first batch normalisation of a pass.

    Args:
        ratio: variance of its inputs over the recorded one, of the median channel.
        untouched: whether it still has the statistics of a new layer.
    """

    ratio: float
    untouched: bool


class FirstNorm(TorchFunctionMode):
    """Notes the first batch normalisation by recorded statistics, wherever it is called from."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded: Recorded | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look at the call, then let it happen."""
        if func is F.batch_norm and self.recorded is None:
            arguments = _arguments(func, args, kwargs)
            if arguments["running_var"] is not None:
                self.recorded = _compared(**{name: arguments[name] for name in NAMES})
        return func(*args, **(kwargs or {}))


NAMES = ("input", "running_mean", "running_var", "eps")


def _compared(input: Tensor, running_mean: Tensor, running_var: Tensor, eps: float) -> Recorded:
    seen = input.double().transpose(0, 1).flatten(1).var(1, correction=0)
    ratio = float(((seen + eps) / (running_var.double() + eps)).median())
    return Recorded(ratio, bool((running_mean == 0).all() and (running_var == 1).all()))


@torch.no_grad()
@in_evaluation_mode
def scaling(model: Classifier, x: Tensor) -> Verdict:
    """Do the inputs of the first batch normalisation vary as they did in training?"""
    with FirstNorm() as watch:
        model(x)
    return scaling_verdict(watch.recorded)


def scaling_verdict(recorded: Recorded | None) -> Verdict:
    """The verdict on what the first batch normalisation of a pass recorded."""
    if recorded is None:
        finding = "the network has no batch normalisation, which would have recorded how its images were scaled"
        return Verdict(flag="scaling", level="pass", finding=finding, evidence="model")
    right = 1 / FACTOR <= recorded.ratio <= FACTOR
    return judged(
        "scaling",
        "pass" if right else "fail",
        f"inputs of the first batch normalisation have {recorded.ratio:.2g} times the variance it recorded",
        remedy=UNTRAINED if recorded.untouched else RESCALED,
        evidence="model",
        value=recorded.ratio,
        limit=FACTOR,
    )
