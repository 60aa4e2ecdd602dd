"""Adversarial weight perturbation: any objective, at weights that are perturbed to raise it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from holdfast.objectives import perturbed_weights
from holdfast.objectives.arguments import require_nonnegative, require_positive
from holdfast.objectives.perturbed_weights import require_single_steps, weight_gradients
from holdfast.types import Objective


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
        network, which is the direction above for any learning rate and keeps no state, and applies weight decay at
        :math:`w + v`; here it is that of :math:`w`.
    """

    objective: Objective
    gamma: float = 5e-3
    warmup: int = 0

    soft_labels = property(perturbed_weights.soft_labels)
    passes = property(perturbed_weights.passes)
    hooks = property(perturbed_weights.hooks)
    __call__ = perturbed_weights.terms_of_first_batch

    def __post_init__(self) -> None:
        require_positive(gamma=self.gamma)
        require_nonnegative(warmup=self.warmup)
        require_single_steps(self.objective)

    def moves(self, total: Tensor, model: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
        """Every weight with its part of :math:`v`."""
        weights = [weight for weight in model.parameters() if weight.requires_grad and weight.dim() > 1]
        return zip(weights, perturbation(total, weights, self.gamma), strict=True)


def perturbation(total: Tensor, weights: Sequence[Tensor], gamma: float) -> list[Tensor]:
    r""":math:`\gamma \|w\|\, g / \|g\|` for every weight, detached; zero where there is no gradient."""
    tiny = torch.finfo(total.dtype).tiny
    return [
        gamma * weight.detach().norm() * grad / grad.norm().clamp(min=tiny)
        for weight, grad in zip(weights, weight_gradients(total, weights), strict=True)
    ]
