"""What is evaluated, and whether it can be."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from holdfast.data.dataset import Split
from holdfast.errors import ModelError
from holdfast.hierarchy import Hierarchy
from holdfast.modes import evaluating
from holdfast.runs.code import TrustedCode
from holdfast.types import Classifier


@dataclass(frozen=True)
class Subject:
    """What is evaluated, as the ledger names it.

    Args:
        model: the classifier.
        run: name of its run.
        weights: which of its weights.
        hash: of their content.
        trust: which factories may be called to make other networks that its checks or questions need.
        hierarchy: of its classes, for checks that know groups of them; None for none.
    """

    model: Classifier
    run: str = "model"
    weights: str = "given"
    hash: str = ""
    trust: TrustedCode = False
    hierarchy: Hierarchy | None = None


def place(model: Classifier) -> Tensor:
    """A tensor with device and dtype of the model's parameters; a plain function gets float32 on the CPU."""
    first = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return torch.empty(0) if first is None else first.detach().new_empty(0)


def try_out(model: Classifier, split: Split, classes: int | None = None) -> None:
    """One forward pass before hours of work: does the model take these images and know their classes?

    Raises:
        ModelError: if it cannot be called, or its output is not one row of `classes` logits (None for as many as the
            labels need).
    """
    where, (x, _) = place(model), split.batch(slice(0, 1))
    try:
        with evaluating(model), torch.no_grad():
            logits = model(x.to(where))
    except Exception as error:  # a foreign network may raise anything
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(f"the model cannot be called on images of shape {tuple(x.shape)}: {line}") from error
    classes_of_model = logits.shape[1] if isinstance(logits, Tensor) and logits.dim() == 2 and len(logits) == 1 else 0
    needed = int(split.y.max()) + 1
    if classes_of_model < needed or (classes is not None and classes_of_model != classes):
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ModelError(f"the model: expected logits of shape (1, {classes or f'at least {needed}'}); got {got}")
