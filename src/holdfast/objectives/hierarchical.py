"""Objectives for classes with a hierarchy: losses on the levels of a hierarchy, and labels softened by severity."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.persistence import make_persistent
from holdfast.ensembles.views import group_sums, groups_of, require_classes
from holdfast.errors import RecipeError
from holdfast.hierarchy import Hierarchy
from holdfast.losses import soft_cross_entropy
from holdfast.objectives.adversarial import passes_of
from holdfast.objectives.arguments import require_nonnegative
from holdfast.objectives.passes import Passes
from holdfast.rng import Streams
from holdfast.types import Attack, Classifier, Terms


@dataclass(frozen=True, kw_only=True)
class HierarchicalCrossEntropy:
    r"""Cross entropy, level by level: the group first, then the class within it, each with a weight.

    .. math:: -\sum_{l=0}^{L} e^{-\alpha (L - l)} \log \frac{p(C_l)}{p(C_{l + 1})}, \qquad p(C) = \sum_{k \in C} p_k

    :math:`C_0` is the class, :math:`C_1, \ldots, C_L` its groups from the finest to the coarsest level, and
    :math:`p(C_{L + 1}) = 1`. With :math:`\alpha = 0` it is the cross entropy of the class; the larger it is, the less
    the class within its group matters. With an attack, all of it is taken at the point that the attack finds: with
    `hierarchical`, that is adversarial training on the view.

    Args:
        alpha: :math:`\alpha`.
        attack: finds the point, and is run in evaluation mode; None for the images themselves. Its field `until_lost`,
            if it or the attack inside it has one, is switched off.
        hierarchy: of the classes; None for that of the data.

    Reference:
        Bertinetto et al., Making Better Mistakes: Leveraging Class Hierarchies with Deep Networks, CVPR 2020,
        arXiv:1912.09393, section 3.1. Weights fall with the depth of a node, as their text and code have it; the
        formula there has the height. Differs: the weight of the coarsest level is 1. The attack is ours.
    """

    alpha: float = 0.5
    attack: Attack | None = None
    hierarchy: Hierarchy | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_nonnegative(alpha=self.alpha)
        _keep_climbing(self)

    @property
    def passes(self) -> Passes | None:
        """Passes of one step; None for attacks whose passes are unknown."""
        return _passes(self.attack)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch: the total, and the part of each level without its weight."""
        hierarchy = _stated(self.hierarchy, "hierarchical_cross_entropy")
        logits = model(_points(self.attack, model, x, y, rng))
        require_classes(logits, len(hierarchy.classes))
        log_shares = [logits.gather(1, y[:, None])[:, 0]]
        for level in hierarchy.levels:
            log_shares.append(group_sums(logits, level).gather(1, groups_of(level, y)[y][:, None])[:, 0])
        log_shares.append(logits.logsumexp(1))
        names = ["class", *(level.name for level in hierarchy.levels)]
        steps = [(above - below).mean() for below, above in itertools.pairwise(log_shares)]
        weights = [math.exp(-self.alpha * depth) for depth in range(len(steps) - 1, -1, -1)]
        total = torch.stack([weight * step for weight, step in zip(weights, steps, strict=True)]).sum()
        return Terms(total, {name: step.detach() for name, step in zip(names, steps, strict=True)})


@dataclass(frozen=True, kw_only=True)
class SeverityLabels:
    r"""Cross entropy with labels that give more to the classes whose confusion costs less.

    .. math:: -\sum_k q_k \log p_k, \qquad q_k = \frac{e^{-\beta c_{yk}}}{\sum_j e^{-\beta c_{yj}}}

    :math:`c` is the severity of the hierarchy, divided by the largest. The larger :math:`\beta` is, the nearer to the
    plain label.

    Args:
        beta: :math:`\beta`.
        attack: as in `HierarchicalCrossEntropy`.
        hierarchy: of the classes; None for that of the data.

    Reference:
        Bertinetto et al., as there, section 3.2; costs of their own are the heights of the lowest common ancestors.
    """

    beta: float = 10.0
    attack: Attack | None = None
    hierarchy: Hierarchy | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_nonnegative(beta=self.beta)
        _keep_climbing(self)

    @property
    def passes(self) -> Passes | None:
        """Passes of one step; None for attacks whose passes are unknown."""
        return _passes(self.attack)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch."""
        labels = severity_labels(_stated(self.hierarchy, "severity_labels"), self.beta)
        logits = model(_points(self.attack, model, x, y, rng))
        require_classes(logits, len(labels))
        return Terms(soft_cross_entropy(logits, labels.to(logits)[y]).mean())


def severity_labels(hierarchy: Hierarchy, beta: float) -> Tensor:
    """The label distribution of each class, (K, K), float64."""
    costs = torch.from_numpy(hierarchy.costs)
    return F.softmax(-beta * costs / costs.max(), dim=1)


def _points(attack: Attack | None, model: Classifier, x: Tensor, y: Tensor, rng: Streams | None) -> Tensor:
    return x if attack is None else attack(model, x.detach(), y, rng=rng)


def _keep_climbing(objective: HierarchicalCrossEntropy | SeverityLabels) -> None:
    if objective.attack is not None:
        object.__setattr__(objective, "attack", make_persistent(objective.attack))


def _passes(attack: Attack | None) -> Passes | None:
    inside = Passes(0, 0) if attack is None else passes_of(attack)
    return None if inside is None else inside + Passes(1, 1)


def _stated(hierarchy: Hierarchy | None, who: str) -> Hierarchy:
    if hierarchy is None:
        raise RecipeError(f"{who}: expected a hierarchy; got None, which stands for that of the data")
    return hierarchy
