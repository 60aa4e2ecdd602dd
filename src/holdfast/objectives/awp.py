"""Adversarial weight perturbation: any objective, at weights that are perturbed to raise it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError
from holdfast.objectives.arguments import require_nonnegative, require_positive
from holdfast.objectives.centroids import everywhere
from holdfast.objectives.passes import Passes
from holdfast.objectives.temporarily_replaced import buffers_of, temporarily_replaced
from holdfast.rng import Streams, streams
from holdfast.types import Classifier, Hooks, Objective, Terms, hooks_of


@dataclass(frozen=True, kw_only=True)
class AWP:
    r"""An objective where its weights are perturbed so that it rises: flat minima in the weights, too.

    .. math:: L(w + v), \qquad v_l = \gamma\, \|w_l\|\, \frac{\nabla_{w_l} L(w)}{\|\nabla_{w_l} L(w)\|}

    for every weight :math:`w_l` with more than one dimension: biases and the parameters of normalisation layers stay.
    :math:`v` is a constant for the gradient, so that training sees the gradient at :math:`w + v` and applies it to
    :math:`w`. The network's weights are never changed: the graph begins with the sum. The first pass, which finds
    :math:`v`, updates no state, such as BatchNorm's statistics. An objective that searches for points does so once, at
    :math:`w`; others are evaluated twice with the same random numbers.

    Args:
        objective: :math:`L`.
        gamma: :math:`\gamma`, size of the perturbation relative to the weights.
        warmup: steps without any.

    Reference:
        Wu, Xia, Wang, Adversarial Weight Perturbation Helps Robust Generalization, NeurIPS 2020, arXiv:2004.05884,
        equations 8 to 10, with its :math:`\gamma`. Its code finds :math:`v` by a step of plain SGD on a copy of the
        network, which is the direction above for any learning rate and remembers nothing, and applies weight decay at
        :math:`w + v`; here it is that of :math:`w`.
    """

    objective: Objective
    gamma: float = 5e-3
    warmup: int = 0

    def __post_init__(self) -> None:
        require_positive(gamma=self.gamma)
        require_nonnegative(warmup=self.warmup)
        if hooks_of(self.objective).replays > 1:
            raise ValueError("objective: expected one that takes one step for each batch, got one with replays")

    @property
    def soft_labels(self) -> bool:
        """Whether labels may be distributions: where the objective takes them."""
        return bool(getattr(self.objective, "soft_labels", False))

    @property
    def passes(self) -> Passes | None:
        """Passes of one step: those of the objective, and its loss once more."""
        passes: Passes | None = getattr(self.objective, "passes", None)
        return None if passes is None else passes + getattr(self.objective, "loss_passes", passes)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a first batch."""
        rng = streams(rng, x)
        started = self._inner(model, 0, rng.indices)  # only to search: what searches does not ask how many classes
        inner = self.objective if hooks_of(started).search is None else started
        return Perturbed(self, inner).forward(model, x, y, rng=rng)

    @property
    def hooks(self) -> Hooks:
        """The same with a count of its steps and what the objective remembers."""
        return Hooks(start=lambda model, classes, examples: Perturbed(self, self._inner(model, classes, examples)))

    def _inner(self, model: Any, classes: int, examples: Tensor) -> Objective:
        start = hooks_of(self.objective).start
        return self.objective if start is None else start(model, classes, examples)


class Perturbed(nn.Module):
    """The objective with its state, the number of steps.

    Args:
        settings: of the perturbation.
        inner: the objective that is perturbed, started.
    """

    step: Tensor

    def __init__(self, settings: AWP, inner: Objective) -> None:
        super().__init__()
        self.inner = inner
        self.objective = settings
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    @property
    def objective(self) -> AWP:
        """Settings of the perturbation and of the objective inside; setting them leaves what is remembered alone."""
        return self.settings

    @objective.setter
    def objective(self, settings: AWP) -> None:
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
            raise ModelError(f"awp needs a network with weights to perturb, got {type(model).__name__}")
        rng = streams(rng, x)
        self.step = self.step + 1
        if int(self.step) <= self.settings.warmup:
            return self.inner(model, x, y, rng=rng)
        loss, whole = self._loss(model, x, y, rng), (model, self.inner)
        weights = [weight for weight in model.parameters() if weight.requires_grad and weight.dim() > 1]
        remembered = buffers_of(whole)
        with temporarily_replaced(whole, remembered, [buffer.clone() for buffer in remembered]):
            trial = loss()
        moves = perturbation(trial.total, weights, self.settings.gamma)
        with temporarily_replaced(whole, weights, [weight + move for weight, move in zip(weights, moves, strict=True)]):
            terms = loss()
        return Terms(terms.total, {**terms.parts, "unperturbed": trial.total.detach()})

    def _loss(self, model: Any, x: Tensor, y: Tensor, rng: Streams) -> Callable[[], Terms]:
        """What is taken twice: the loss at points found once, or all of an objective that does not search."""
        inner, hooks = self.inner, hooks_of(self.inner)
        if hooks.search is None or hooks.loss is None:
            return lambda: inner(model, x, y, rng=rng[:])
        return partial(hooks.loss, model, x, y, hooks.search(model, x, y, rng=rng))


def perturbation(total: Tensor, weights: Sequence[Tensor], gamma: float) -> list[Tensor]:
    r""":math:`\gamma \|w\|\, g / \|g\|` for every weight, detached; zero where there is no gradient."""
    if not weights:
        return []
    grads = torch.autograd.grad(total, weights, allow_unused=True)
    dense = (torch.zeros_like(w) if grad is None else grad for w, grad in zip(weights, grads, strict=True))
    summed = everywhere(*dense)
    tiny = torch.finfo(total.dtype).tiny
    return [
        gamma * weight.detach().norm() * grad / grad.norm().clamp(min=tiny)
        for weight, grad in zip(weights, summed, strict=True)
    ]
