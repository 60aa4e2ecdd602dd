"""Several networks as one, which answers with their mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError
from holdfast.types import Classifier
from holdfast.wrappers import behind, network

Space = Literal["logits", "probabilities"]
"""In what the mean is taken."""


class Ensemble(nn.Module):
    r"""The mean of several networks, in logits or in probabilities.

    .. math:: \bar f(x) = \frac1M \sum_m f_m(x) \quad\text{or}\quad
        \bar f(x) = \log \frac1M \sum_m \mathrm{softmax} f_m(x)

    For the mean of their losses, `transfer_loop` has the stage `loss_ensemble`, which looks at the members.

    Args:
        members: the networks :math:`f_m`.
        space: `logits` or `probabilities`.

    Reference:
        Liu et al., Delving into Transferable Adversarial Examples and Black-box Attacks, ICLR 2017, arXiv:1611.02770
        (probabilities). Dong et al., Boosting Adversarial Attacks with Momentum, CVPR 2018, arXiv:1710.06081, section
        3.4 (logits).
    """

    def __init__(self, members: Sequence[nn.Module], space: Space = "logits") -> None:
        super().__init__()
        if not members:
            raise ValueError("an ensemble needs members")
        if space not in get_args(Space):
            raise ValueError(f"space must be logits or probabilities, got {space}")
        self.members, self.space = nn.ModuleList(members), space

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, K); of the mean of probabilities these are their logarithms."""
        return self.mean([member(x) for member in self.members])

    def mean(self, answers: Sequence[Tensor]) -> Tensor:
        """Of the logits of the members, (N, K) each."""
        if self.space == "logits":
            mean: Tensor = torch.stack(tuple(answers)).mean(0)
            return mean
        logarithms = torch.stack([answer.log_softmax(1) for answer in answers])
        return torch.logsumexp(logarithms, 0) - math.log(len(answers))


def members_of(model: Classifier, who: str) -> list[Classifier]:
    """The members of an ensemble, each behind the transparent wrappers that it stands behind.

    Raises:
        ModelError: if the classifier is something else.
    """
    inside = network(model)
    if not isinstance(inside, Ensemble):
        raise ModelError(f"{who}: expected an ensemble of networks; got {type(inside).__name__}")
    return [behind(model, lambda _, member=member: member) for member in inside.members]  # type: ignore[misc]
