"""What an objective needs of the training loop beyond being called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from holdfast.types import Classifier, Examples, Terms


def _ignore(train: Examples, validation: Examples | None, *, augmented: bool) -> None:
    """Nothing to do."""


def _prepare_nothing(index: Tensor, like: Tensor) -> Iterator[tuple[int, int]]:
    """Nothing to make."""
    return iter(())


def _no_alarm() -> None:
    """Nothing is wrong."""


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What an objective needs of the training loop beyond being called; by default, nothing.

    The objective of a recipe is only its fields. One that remembers something from batch to batch, such as centroids,
    starts a module that does; called without being started it does what it would do on the first batch. That module
    may have hooks of its own.

    Args:
        start: makes the module to call instead, from the network that will be trained, how many classes there are, and
            the indices of the training examples, (n,). Its buffers are what is remembered; the training state has them.
        replays: steps of the optimizer with each batch.
        meet: is called before the first step, and the first after a resume, with all training images as they are, the
            images that are held out, if any are, and `augmented`: whether the images of a batch differ from the former.
        prepare: makes what does not exist yet, in pieces between which training can be stopped; calling the objective
            makes what is missing then. It is called with the indices of the examples that the rest of the epoch will
            see and a tensor of the device and precision of the work. After each piece it yields how many are made and
            how many there will be.
        search: for an objective that first searches, with the weights as they are, and then takes a loss at the result;
            calling it does both. Whoever needs the loss twice, such as a perturbation of the weights, searches once:
            `search(model, x, y, rng=rng)` is what the loss needs, detached; what is remembered is remembered here.
        loss: the terms, `loss(model, x, y, result)`, from what `search` returned.
        alarm: what is wrong with the training, in one sentence, or None.
    """

    start: Callable[[nn.Module, int, Tensor], nn.Module] | None = None
    replays: int = 1
    meet: Callable[..., None] = _ignore
    prepare: Callable[[Tensor, Tensor], Iterator[tuple[int, int]]] = _prepare_nothing
    search: Callable[..., Any] | None = None
    loss: Callable[[Classifier, Tensor, Tensor, Any], Terms] | None = None
    alarm: Callable[[], str | None] = _no_alarm


def hooks_of(objective: object) -> Hooks:
    """What an objective wants of the training loop, at work or not."""
    hooks: Hooks = getattr(objective, "hooks", Hooks())
    return hooks
