r"""HAR on a shared trunk: one network whose features feed a head of groups and a head of classes.

.. math:: \log F_k = \log M_g + \log L_k, \qquad \log L_k = u_k - \log \sum_{j \in g} e^{u_j}, \qquad k \in g

:math:`M` is the softmax of the logits of the groups and :math:`L` that of the logits :math:`u` of the classes within
each group. Logits are :math:`\log F` in the order of the classes, as those of `HAR`; cost and memory are those of one
network, whatever the number of groups, but for a row of the head for each group. Where the logits of the groups are
:math:`\log \sum_{j \in g} e^{u_j}`, :math:`F` is the softmax of :math:`u`.

Reference:
    Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025: section 5.7.1 names an efficient
    HAR as an open problem; the product is that of equation 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError, RecipeError
from holdfast.hierarchy import Hierarchy
from holdfast.models.network import Network
from holdfast.types import Architecture


@dataclass(frozen=True, kw_only=True)
class SharedHAR:
    """A network of ours with a head of groups and a head of classes, see `HierarchicalHead`; both are trained jointly.

    With `train.init_from` and `train.freeze: features` the heads alone are trained, on the trunk of another run of
    `network`, whatever its classes were.

    Args:
        network: the trunk: a network whose head is one dense layer.
        level: of the hierarchy; None for the finest.
        hierarchy: of the classes; None for that of the data.
    """

    network: Architecture
    level: str | None = None
    hierarchy: Hierarchy | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.network, SharedHAR):
            raise ValueError("shared_har.network: expected a network with one head; got another shared_har")
        if self.hierarchy is not None:
            self.groups()

    def groups(self) -> tuple[int, ...]:
        """The group of each class.

        Raises:
            RecipeError: if the hierarchy is not known yet, or has no such level.
        """
        if self.hierarchy is None:
            raise RecipeError("shared_har: expected data with a hierarchy, such as data.hierarchy: cifar10; got none")
        level = self.hierarchy.border(self.level).level
        assert level is not None
        return level.of

    def __call__(self, shape: tuple[int, int, int], classes: int) -> nn.Module:
        """Build the network, then put the two heads in the place of its own."""
        of = self.groups()
        if len(of) != classes:
            raise RecipeError(f"shared_har: expected the {len(of)} classes of its hierarchy; got {classes}")
        network = self.network(shape, classes)
        if not isinstance(network, Network) or type(network.head) is not nn.Linear:
            raise ValueError("shared_har.network: expected a network of ours whose head is a dense layer")
        network.head = HierarchicalHead(network.head.in_features, of)
        return network


class HierarchicalHead(nn.Module):
    """Two dense layers on the same features: logits of the groups, and logits of the classes.

    Args:
        features: length of the features.
        of: the group of each class; a buffer of the weights, since it changes what they compute.
    """

    of: Tensor

    def __init__(self, features: int, of: Sequence[int]) -> None:
        super().__init__()
        groups = sorted(set(of))
        if len(groups) < 2 or groups != list(range(len(groups))):
            raise ModelError(f"shared_har: expected groups 0, 1, ... with a class each; got {groups}")
        self.of_groups = nn.Linear(features, len(groups))
        self.of_classes = nn.Linear(features, len(of))
        self.register_buffer("of", torch.tensor(of))

    def forward(self, features: Tensor) -> Tensor:
        """Log-probabilities of all classes, (N, K)."""
        return composition(self.of_groups(features), self.of_classes(features), self.of)


def composition(groups: Tensor, classes: Tensor, of: Tensor) -> Tensor:
    r""":math:`\log F`, (N, K).

    Args:
        groups: logits of the groups, (N, G).
        classes: logits of the classes, (N, K), of which only differences within a group matter.
        of: the group of each class, (K,).
    """
    return groups.log_softmax(1)[:, of] + log_softmax_within(classes, of, groups.shape[1])


def log_softmax_within(logits: Tensor, of: Tensor, groups: int) -> Tensor:
    """The logarithm of the softmax of each class among those of its group, (N, K); 0 for a class alone."""
    index = of.expand_as(logits)
    empty = logits.new_zeros(len(logits), groups)
    largest = empty.scatter_reduce(1, index, logits.detach(), "amax", include_self=False)
    shifted = logits - largest[:, of]
    return shifted - empty.scatter_add(1, index, shifted.exp()).log()[:, of]
