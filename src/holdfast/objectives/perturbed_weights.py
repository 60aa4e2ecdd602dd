"""What objectives share that take another objective at perturbed weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError
from holdfast.objectives.centroids import everywhere
from holdfast.objectives.hooks import Hooks, hooks_of
from holdfast.objectives.passes import Passes
from holdfast.objectives.temporarily_replaced import buffers_of, temporarily_replaced
from holdfast.rng import Streams, streams
from holdfast.types import Classifier, Objective, Terms


class WeightPerturbation(Protocol):
    """Settings of such an objective."""

    @property
    def objective(self) -> Objective:
        """What is taken at the perturbed weights."""
        ...

    @property
    def warmup(self) -> int:
        """Steps without a perturbation."""
        ...

    def moves(self, total: Tensor, model: nn.Module) -> Iterable[tuple[Tensor, Tensor]]:
        """Weights of a network and by what they are moved, detached, from the loss at the weights."""
        ...


class Perturbed(nn.Module):
    """The objective with its memory, the number of steps.

    Args:
        settings: of the perturbation.
        inner: the objective that is perturbed, started.
    """

    step: Tensor

    def __init__(self, settings: WeightPerturbation, inner: Objective) -> None:
        super().__init__()
        self.inner = inner
        self.objective = settings
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    @property
    def objective(self) -> WeightPerturbation:
        """Settings of the perturbation and of the objective inside; setting them leaves what is remembered alone."""
        return self.settings

    @objective.setter
    def objective(self, settings: WeightPerturbation) -> None:
        self.settings = settings
        inner: Any = self.inner
        if isinstance(inner, nn.Module):
            inner.objective = settings.objective  # type: ignore[assignment]
        else:
            self.inner = settings.objective

    @property
    def hooks(self) -> Hooks:
        """The alarm of the objective inside."""
        return Hooks(alarm=hooks_of(self.inner).alarm)

    def forward(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch, which counts as a step."""
        if not isinstance(model, nn.Module):
            who = type(self.settings).__name__.lower()
            raise ModelError(f"{who} needs a network with weights to perturb, got {type(model).__name__}")
        rng = streams(rng, x)
        self.step = self.step + 1
        if int(self.step) <= self.settings.warmup:
            return self.inner(model, x, y, rng=rng)
        loss, whole = self._loss(model, x, y, rng), (model, self.inner)
        remembered = buffers_of(whole)
        with temporarily_replaced(whole, remembered, [buffer.clone() for buffer in remembered]):
            trial = loss()
        moves = list(self.settings.moves(trial.total, model))
        with temporarily_replaced(whole, [weight for weight, _ in moves], [weight + move for weight, move in moves]):
            terms = loss()
        return Terms(terms.total, {**terms.parts, "unperturbed": trial.total.detach()})

    def _loss(self, model: Any, x: Tensor, y: Tensor, rng: Streams) -> Callable[[], Terms]:
        """What is taken twice: the loss at points found once, or all of an objective that does not search."""
        inner, hooks = self.inner, hooks_of(self.inner)
        if hooks.search is None or hooks.loss is None:
            return lambda: inner(model, x, y, rng=rng[:])
        return partial(hooks.loss, model, x, y, hooks.search(model, x, y, rng=rng))


def started(settings: WeightPerturbation, model: nn.Module, classes: int, examples: Tensor) -> Perturbed:
    """The objective at work, with whatever the one inside starts."""
    start = hooks_of(settings.objective).start
    return Perturbed(settings, settings.objective if start is None else start(model, classes, examples))


def terms_of_first_batch(
    settings: WeightPerturbation, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None
) -> Terms:
    """Terms of an objective that nobody started."""
    rng = streams(rng, x)
    work = started(settings, model, 0, rng.indices)  # type: ignore[arg-type]
    searches = hooks_of(work.inner).search is not None  # what searches does not ask how many classes there are
    result: Terms = (work if searches else Perturbed(settings, settings.objective))(model, x, y, rng=rng)
    return result


def hooks(settings: WeightPerturbation) -> Hooks:
    """The same with a count of its steps and what the objective remembers."""
    return Hooks(start=partial(started, settings))


def soft_labels(settings: WeightPerturbation) -> bool:
    """Whether labels may be distributions: where the objective takes them."""
    return bool(getattr(settings.objective, "soft_labels", False))


def passes(settings: WeightPerturbation) -> Passes | None:
    """Of one step: those of the objective, and its loss once more."""
    of_objective: Passes | None = getattr(settings.objective, "passes", None)
    return None if of_objective is None else of_objective + getattr(settings.objective, "loss_passes", of_objective)


def require_single_steps(objective: Objective) -> None:
    """Refuse an objective that takes several steps for each batch."""
    if hooks_of(objective).replays > 1:
        raise ValueError("objective: expected one that takes one step for each batch, got one with replays")


def weight_gradients(total: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    """The gradient of each weight, zero where there is none, summed over all processes."""
    if not weights:
        return []
    grads = torch.autograd.grad(total, weights, allow_unused=True)
    dense = (torch.zeros_like(w) if grad is None else grad for w, grad in zip(weights, grads, strict=True))
    return list(everywhere(*dense))
