r"""HAR: a network of groups, and for each group a network of its classes; their product is one classifier.

.. math:: F_k(x) = M_g(x)\, L_{g, k}(x), \qquad \log F_k = \log M_g + \log L_{g, k}, \qquad k \in g

:math:`M` and :math:`L_g` are probabilities, so that those of all classes sum to one. Logits are :math:`\log F`, whose
softmax is :math:`F` itself; attacks and losses work on logarithms, never on products.

Reference:
    Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, section 5.5 and equation 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from holdfast.errors import ModelError

OfClasses = Callable[[int, Tensor], Tensor]
"""The log-probabilities of the classes of a group, by its number, for rows of the batch: (R, classes of the group)."""


class Answer(NamedTuple):
    """What lazy inference answers: the class, its log-probability and how many networks of classes ran, all (N,)."""

    prediction: Tensor
    log_probability: Tensor
    evaluated: Tensor


class HAR(nn.Module):
    """A network of groups and networks of their classes as one classifier.

    Where gradients are wanted in evaluation mode, each network of classes runs a second time in the backward pass
    instead of keeping its activations, so that the memory is that of the largest one.

    Args:
        of_groups: images to logits of the groups.
        of_leaves: for each group, images to logits of its classes; None for groups of one class.
        leaves: the classes of each group, in the order of the outputs of its network.
    """

    def __init__(
        self, of_groups: nn.Module, of_leaves: Sequence[nn.Module | None], leaves: Sequence[Sequence[int]]
    ) -> None:
        super().__init__()
        require_partition(of_leaves, leaves)
        self.of_groups = of_groups
        self.of_leaves = nn.ModuleDict(
            {str(group): network for group, network in enumerate(of_leaves) if network is not None}
        )
        self.leaves = tuple(tuple(some) for some in leaves)

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities of all classes in their own order, (N, K)."""
        groups = self.log_groups(x)
        parts = [groups[:, [group]] + self._leaf(group, x) for group in range(len(self.leaves))]
        return composed(parts, self.leaves)

    def log_groups(self, x: Tensor) -> Tensor:
        """Log-probabilities of the groups, (N, G)."""
        logits: Tensor = self.of_groups(x)
        _require(logits, "of_groups", len(self.leaves))
        return logits.log_softmax(1)

    def log_leaves(self, group: int, x: Tensor) -> Tensor:
        """Log-probabilities of the classes of a group within it, in the order of its network."""
        if str(group) not in self.of_leaves:
            return x.new_zeros(len(x), 1)
        logits: Tensor = self.of_leaves[str(group)](x)
        _require(logits, f"of_leaves {group}", len(self.leaves[group]))
        return logits.log_softmax(1)

    def _leaf(self, group: int, x: Tensor) -> Tensor:
        # A second pass in training mode would move the statistics of normalisation twice.
        if self.training or not torch.is_grad_enabled() or str(group) not in self.of_leaves:
            return self.log_leaves(group, x)
        result: Tensor = checkpoint(self.log_leaves, group, x, use_reentrant=False, preserve_rng_state=False)
        return result

    @torch.no_grad()
    def predict(self, x: Tensor) -> Answer:
        """The predicted classes, and only the networks that they need; the same as the largest logit."""
        own = [str(group) in self.of_leaves for group in range(len(self.leaves))]
        return predict_lazily(self.log_groups(x), lambda group, rows: self.log_leaves(group, x[rows]), self.leaves, own)


def composed(parts: Sequence[Tensor], leaves: Sequence[Sequence[int]]) -> Tensor:
    """Columns of each group, put into the order of all classes, (N, K)."""
    order = torch.tensor([leaf for some in leaves for leaf in some], device=parts[0].device).argsort()
    return torch.cat([*parts], dim=1)[:, order]


def predict_lazily(
    log_groups: Tensor, of_classes: OfClasses, leaves: Sequence[Sequence[int]], counted: Sequence[bool] | None = None
) -> Answer:
    r"""The most probable class of a product, without most of its factors.

    Since :math:`F_k \le M_g`, groups are visited from the most probable on, until :math:`M_g` is below the largest
    product so far. Rounding does not matter, as no computed log-probability is above 0. Of equal products the first
    class counts, as in `argmax`.

    Args:
        log_groups: :math:`\log M`, (N, G).
        of_classes: :math:`\log L_g` of a group for some rows.
        leaves: the classes of each group, in the order of the columns of its :math:`L_g`.
        counted: which groups have a network to count; None for all.
    """
    examples, groups = log_groups.shape
    ordered, order = log_groups.sort(dim=1, descending=True)
    best = log_groups.new_full((examples,), -torch.inf)
    prediction = torch.full((examples,), sum(map(len, leaves)), device=log_groups.device)
    evaluated = torch.zeros_like(prediction)
    for place in range(groups):
        open_ = ordered[:, place] >= best
        for group in sorted(set(order[open_, place].tolist())):
            rows = (open_ & (order[:, place] == group)).nonzero()[:, 0]
            classes = torch.tensor(leaves[group], device=rows.device)
            by_class = classes.argsort()  # so that the first of equal ones is the first class
            products = (ordered[rows, place, None] + of_classes(group, rows))[:, by_class]
            value, column = products.max(dim=1).values, products.argmax(dim=1)
            candidate = classes[by_class][column]
            wins = (value > best[rows]) | ((value == best[rows]) & (candidate < prediction[rows]))
            best[rows[wins]], prediction[rows[wins]] = value[wins], candidate[wins]
            evaluated[rows] += int(counted is None or counted[group])
    return Answer(prediction, best, evaluated)


def parameters_of(model: HAR) -> dict[str, int]:
    """How many parameters each network has, and all of them: `groups`, the number of each group, and `all`."""
    sizes = {"groups": sum(one.numel() for one in model.of_groups.parameters())}
    sizes |= {name: sum(one.numel() for one in network.parameters()) for name, network in model.of_leaves.items()}
    return {**sizes, "all": sum(sizes.values())}


def require_partition(of_leaves: Sequence[nn.Module | None], leaves: Sequence[Sequence[int]]) -> None:
    """Refuse groups that do not have every class once, and networks that are missing or of no use."""
    every = sorted(leaf for some in leaves for leaf in some)
    if len(leaves) < 2 or every != list(range(len(every))) or not all(leaves):
        raise ModelError(
            f"har: expected every class once, in two groups or more; got {[list(some) for some in leaves]}"
        )
    if len(of_leaves) != len(leaves):
        raise ModelError(f"har: expected a network, or None, for each of {len(leaves)} groups; got {len(of_leaves)}")
    for group, (network, some) in enumerate(zip(of_leaves, leaves, strict=True)):
        if network is None and len(some) > 1:
            raise ModelError(f"har: expected a network of the {len(some)} classes of group {group}; got None")
        if network is not None and len(some) == 1:
            raise ModelError(f"har: expected no network of the single class of group {group}; got one")


def _require(logits: Tensor, which: str, classes: int) -> None:
    if logits.dim() != 2 or logits.shape[1] != classes:
        raise ModelError(f"har: {which}: expected logits of {classes} classes; got shape {tuple(logits.shape)}")
