"""Outputs that are probabilities instead of logits, whose losses and gradients are not those that attacks climb."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.modes import in_evaluation_mode
from holdfast.types import Classifier
from holdfast.verdicts import Verdict

SUM = 1e-3
"""How far the sum of a row of probabilities may be from 1, in single precision."""

REMEDY = (
    "return logits: the cross entropy of probabilities has almost no gradient, so that attacks find too little; "
    "remove the softmax, or return its logarithm"
)


@torch.no_grad()
@in_evaluation_mode
def probabilities(model: Classifier, x: Tensor) -> Verdict:
    """Judge whether rows of the output have no negative value and sum to 1."""
    outputs = model(x)
    near = max(SUM, math.sqrt(torch.finfo(outputs.dtype).eps))
    rows = (outputs >= 0).all(1) & ((outputs.double().sum(1) - 1).abs() <= near)
    share = float(rows.double().mean())
    return Verdict(
        flag="probabilities",
        level="fail" if share > 0.5 else "pass",
        finding=f"{int(rows.sum())} of {len(rows)} rows of the output have no negative value and sum to 1",
        remedy=REMEDY if share > 0.5 else "",
        evidence="model",
        value=share,
        limit=0.5,
    )
