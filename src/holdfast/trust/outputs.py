r"""Conditions of the answers: better than guessing, the same twice, each of its own image alone, and logits.

Two answers count as equal when their difference is below :math:`\sqrt{u}` of the largest logit, :math:`u` the rounding
unit of the number type: half of its digits, far above what another order of summation changes and far below what
dropout or statistics of the batch do.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.halving import is_out_of_memory
from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.trust.chance import CleanAnswers
from holdfast.trust.verdict import Verdict, judged
from holdfast.types import Classifier

PASSES = 4
"""How often the same batch is asked."""

ALONE = 32
"""How many examples are asked alone."""


def rounding(logits: Tensor) -> float:
    """What counts as equal, relative to the largest logit."""
    return math.sqrt(torch.finfo(logits.dtype).eps)


def difference(first: Tensor, second: Tensor) -> float:
    """Largest difference of two tensors of logits, relative to the largest logit."""
    scale = max(float(first.abs().max()), torch.finfo(first.dtype).tiny)
    return float((first - second).abs().max()) / scale


@torch.no_grad()
def answers_clean_images(model: Classifier, x: Tensor, y: Tensor) -> Verdict:
    """Is the model right more often than the same answers would be by chance?"""
    logits = model(x)
    loss = float(cross_entropy(logits, y).mean())
    return CleanAnswers(y.tolist(), logits.argmax(1).tolist(), loss).verdict("model")


@torch.no_grad()
def randomness(model: Classifier, x: Tensor) -> Verdict:
    """Does the model answer the same batch the same way twice?"""
    first = model(x)
    value, limit = max(difference(first, model(x)) for _ in range(PASSES - 1)), rounding(first)
    return judged(
        "randomness",
        "fail" if value > limit else "pass",
        f"logits of the same batch differ by {value:.2g} of the largest one in {PASSES} passes",
        remedy="average over the randomness: wrappers.ExpectedOverRandomness, or autoattack in its version rand",
        evidence="model",
        value=value,
        limit=limit,
    )


@torch.no_grad()
def batch_dependence(model: Classifier, x: Tensor) -> Verdict:
    """Is each example answered alone as it is in the batch?"""
    if len(x) < 2:
        return Verdict(flag="batch", level="not tested", finding="needs two examples", evidence="model")
    together, remedy = model(x)[:ALONE], "freeze the statistics of normalisation layers: no answer may use other images"
    try:
        alone = torch.cat([model(one[None]) for one in x[:ALONE]])
    except (RuntimeError, ValueError) as error:  # BatchNorm in train mode refuses a single value per channel
        if is_out_of_memory(error):
            raise
        finding = f"the model cannot be asked about one image: {str(error).splitlines()[0]}"
        return Verdict(flag="batch", level="fail", finding=finding, remedy=remedy, evidence="model")
    value, limit = difference(together, alone), rounding(together)
    return judged(
        "batch",
        "fail" if value > limit else "pass",
        f"logits of {len(alone)} examples alone differ from those in the batch by {value:.2g} of the largest",
        remedy=remedy,
        evidence="model",
        value=value,
        limit=limit,
    )


SUM = 1e-3
"""How far the sum of a row of probabilities may be from 1, in single precision."""

NO_LOGITS = (
    "return logits: the cross entropy of probabilities has almost no gradient, so that attacks find too little; "
    "remove the softmax, or return its logarithm"
)


@torch.no_grad()
@in_evaluation_mode
def probabilities(model: Classifier, x: Tensor) -> Verdict:
    """Judge whether rows of the output have no negative value and sum to 1, so that losses are not what they seem."""
    outputs = model(x)
    near = max(SUM, rounding(outputs))
    rows = (outputs >= 0).all(1) & ((outputs.double().sum(1) - 1).abs() <= near)
    share = float(rows.double().mean())
    some = f"{int(rows.sum())} of {len(rows)} rows of the output have no negative value and sum to 1"
    return judged(
        "probabilities",
        "fail" if share > 0.5 else "pass",
        some if share else "no row of the output looks like probabilities",
        remedy=NO_LOGITS,
        evidence="model",
        value=share,
        limit=0.5,
    )
