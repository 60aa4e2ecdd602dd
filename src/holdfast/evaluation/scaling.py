"""Whether a network sees images as it did in training: what its first batch normalisation recorded says so."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from holdfast.modes import in_evaluation_mode
from holdfast.types import Classifier
from holdfast.verdicts import Verdict

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
            call = inspect.signature(func).bind(*args, **(kwargs or {}))
            call.apply_defaults()
            if call.arguments["running_var"] is not None:
                self.recorded = _compared(**{name: call.arguments[name] for name in NAMES})
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
    wrong = not 1 / FACTOR <= recorded.ratio <= FACTOR
    return Verdict(
        flag="scaling",
        level="fail" if wrong else "pass",
        finding=f"inputs of the first batch normalisation have {recorded.ratio:.2g} times the variance it recorded",
        remedy="" if not wrong else UNTRAINED if recorded.untouched else RESCALED,
        evidence="model",
        value=recorded.ratio,
        limit=FACTOR,
    )
