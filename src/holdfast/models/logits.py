"""Networks that return a record with the logits, such as those of Hugging Face."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.modes import evaluating
from holdfast.types import Classifier


class LogitsOf(nn.Module):
    """A network that returns the attribute `logits` of another network's output.

    Args:
        network: images to a record such as `ImageClassifierOutput` of Hugging Face.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, K)."""
        return _logits(self.network, x)


def bare(model: nn.Module) -> nn.Module:
    """The network inside `LogitsOf`; any other network itself."""
    return model.network if isinstance(model, LogitsOf) else model


def _logits(model: Any, x: Tensor) -> Tensor:
    logits: Tensor = model(x).logits
    return logits


def with_logits(model: Any, x: Tensor) -> Any:
    """Return the model, behind `LogitsOf` if it returns for `x` a record that has logits.

    A model that cannot be called on `x` is returned as it is; later calls report the fault.
    """
    if not _has_logits(model, x):
        return model
    return LogitsOf(model) if isinstance(model, nn.Module) else partial(_logits, model)


def _has_logits(model: Classifier, x: Tensor) -> bool:
    answer: Any = None
    with evaluating(model), torch.no_grad(), torch.random.fork_rng(devices=[]), suppress(Exception):
        answer = model(x)  # a foreign network may raise anything
    return not isinstance(answer, Tensor) and isinstance(getattr(answer, "logits", None), Tensor)
