"""Sharpness-aware minimisation: any objective, at the worst weights within a ball around those at hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from holdfast.objectives.arguments import require_positive
from holdfast.objectives.passes import Passes
from holdfast.objectives.perturbed_weights import (
    passes_with_loss_twice,
    require_single_steps,
    started,
    terms_of_first_batch,
    weight_gradients,
)
from holdfast.objectives.standard import Standard
from holdfast.rng import Streams, streams
from holdfast.types import Classifier, Hooks, Objective, Terms


@dataclass(frozen=True, kw_only=True)
class SAM:
    r"""An objective where it is largest, to first order, within a ball of weights.

    .. math:: L(w + e), \qquad e = \rho\,\frac{\nabla_w L(w)}{\|\nabla_w L(w)\|_2}

    with one norm over all parameters that are trained, biases and those of normalisation layers included. :math:`e` is
    a constant for the gradient, so that training sees the gradient at :math:`w + e` and applies it to :math:`w`. In the
    first pass nothing that remembers moves, such as BatchNorm's statistics, as in `AWP`, which moves each layer by a
    share of its own norm.

    Args:
        objective: :math:`L`.
        rho: :math:`\rho`, length of the perturbation.

    Reference:
        Foret et al., Sharpness-Aware Minimization for Efficiently Improving Generalization, ICLR 2021,
        arXiv:2010.01412, equation 2 with p = 2 and algorithm 1. Differs: no weight decay inside :math:`L`, since the
        optimizer has it, and in training with several processes one :math:`e` for all of them (theirs differ).
    """

    objective: Objective = field(default_factory=Standard)
    rho: float = 0.05

    warmup: ClassVar[int] = 0

    def __post_init__(self) -> None:
        require_positive(rho=self.rho)
        require_single_steps(self.objective)

    @property
    def soft_labels(self) -> bool:
        """Whether labels may be distributions: where the objective takes them."""
        return bool(getattr(self.objective, "soft_labels", False))

    @property
    def passes(self) -> Passes | None:
        """Of one step: those of the objective, and its loss once more."""
        return passes_with_loss_twice(self.objective)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a first batch."""
        return terms_of_first_batch(self, model, x, y, streams(rng, x))

    @property
    def hooks(self) -> Hooks:
        """The same with what the objective remembers."""
        return Hooks(start=partial(started, self))

    def moves(self, total: Tensor, model: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
        """Every trained parameter with its part of :math:`e`."""
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        return zip(weights, ascent(weight_gradients(total, weights), self.rho), strict=True)


def ascent(grads: Sequence[Tensor], rho: float) -> list[Tensor]:
    r""":math:`\rho\, g / \|g\|_2` with one norm over all parts of :math:`g`; zero where :math:`g` is."""
    if not grads:
        return []
    length = torch.stack([grad.norm() for grad in grads]).norm()
    return [rho * grad / length.clamp(min=torch.finfo(length.dtype).tiny) for grad in grads]
