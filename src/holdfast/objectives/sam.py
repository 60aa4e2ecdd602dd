"""Sharpness-aware minimisation: any objective, at the worst weights within a ball around those at hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from holdfast.objectives import perturbed_weights
from holdfast.objectives.arguments import require_positive
from holdfast.objectives.perturbed_weights import require_single_steps, weight_gradients
from holdfast.objectives.standard import Standard
from holdfast.types import Objective


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

    soft_labels = property(perturbed_weights.soft_labels)
    passes = property(perturbed_weights.passes)
    hooks = property(perturbed_weights.hooks)
    __call__ = perturbed_weights.terms_of_first_batch

    def __post_init__(self) -> None:
        require_positive(rho=self.rho)
        require_single_steps(self.objective)

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
