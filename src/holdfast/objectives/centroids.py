"""Sums of features by class, in one matrix product instead of a loop over the classes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def class_sums(features: Tensor, y: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Sum of the features, (K, F), and number of examples, (K,), of each class; zero for classes that are absent."""
    members = F.one_hot(y, classes).to(features)
    return members.T @ features, members.sum(0)


def means(sums: Tensor, counts: Tensor) -> Tensor:
    """The centroid of each class, (K, F); zero where a class has no examples."""
    return sums / counts.clamp_min(1)[:, None]


@torch.no_grad()
def everywhere(*values: Tensor) -> tuple[Tensor, ...]:
    """The same sums over the batches of all processes, which must share one state."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not distributed:
        return tuple(value.detach() for value in values)
    summed = tuple(value.detach().clone() for value in values)
    for value in summed:
        torch.distributed.all_reduce(value)
    return summed


def by_class(values: Tensor, y: Tensor, counts: Tensor) -> Tensor:
    """The mean over classes in the batch of the mean over their examples; values (N,), labels (N,), counts (K,)."""
    return (values / counts[y]).sum() / (counts > 0).sum()
