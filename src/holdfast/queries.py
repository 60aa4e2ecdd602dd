"""Counting how often a model is asked about each example, by wrapping it and leaving the methods alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from holdfast.types import Classifier


def narrow(model: Classifier, selection: Tensor) -> Classifier:
    """The model for a part of the batch, by mask or indices, to be called whenever examples leave it.

    Classifiers that keep something per example have a method of this name; plain models do not care.
    """
    method: Callable[[Tensor], Classifier] | None = getattr(model, "narrow", None)
    return model if method is None else method(selection)


def network(model: Classifier) -> Classifier:
    """The classifier behind wrappers that only watch, for methods that read its weights.

    Such a wrapper's class has a property `watched`. Wrappers that compute something else, such as averages, pass
    attributes on but have no such property of their own.
    """
    while hasattr(type(model), "watched"):
        inner: Any = model
        model = inner.watched
    return model


def behind(model: Classifier, change: Callable[[Any], Classifier]) -> Classifier:
    """The model with another classifier behind the wrappers that watch it, made of the one that was there."""
    if not hasattr(type(model), "watched"):
        return change(model)
    watch: Any = model
    changed: Classifier = watch.watching(behind(watch.watched, change))
    return changed


class Counted:
    """A classifier that counts forward passes per example in `counts`, (N,) int64.

    Args:
        model: the classifier asked.
        counts: where to count, shared with the narrowed copies.
        rows: which entry of `counts` each row of a batch belongs to; None means row i is entry i.
    """

    def __init__(self, model: Classifier, counts: Tensor, rows: Tensor | None = None) -> None:
        self._model = model
        self.counts = counts
        self._rows = torch.arange(len(counts), device=counts.device) if rows is None else rows

    def __call__(self, x: Tensor) -> Tensor:
        """Logits; a batch whose length is a multiple of the examples' asks about each as often."""
        if len(x) % len(self._rows):
            raise ValueError(f"{len(x)} rows asked about {len(self._rows)} examples: call narrow() when some leave")
        self.counts.index_add_(0, self._rows, torch.full_like(self._rows, len(x) // len(self._rows)))
        return self._model(x)

    @property
    def watched(self) -> Classifier:
        """The classifier whose queries are counted."""
        return self._model

    def watching(self, model: Classifier) -> Counted:
        """The same count for another classifier."""
        return Counted(model, self.counts, self._rows)

    def narrow(self, selection: Tensor) -> Counted:
        """Count only for the selected examples from now on."""
        return Counted(narrow(self._model, selection), self.counts, self._rows[selection.to(self._rows.device)])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class Shared:
    """A classifier asked by code that does not say whose a row is: every example of its batch gets an equal share.

    A question about a multiple of the examples is about each as often. What is left over goes to them in turn, so that
    the sum of their counts is the number of rows and no two differ by more than one.

    Args:
        model: the classifier asked, narrowed to the examples.
        count: how many they are.
    """

    def __init__(self, model: Classifier, count: int) -> None:
        self._model, self._count, self._next = model, count, 0

    def __call__(self, x: Tensor) -> Tensor:
        """Logits."""
        left = len(x) % self._count
        if not left:
            return self._model(x)
        turn = (torch.arange(left) + self._next) % self._count
        self._next = (self._next + left) % self._count
        rest = narrow(self._model, turn)(x[len(x) - left :])
        return torch.cat((self._model(x[: len(x) - left]), rest)) if len(x) > left else rest
