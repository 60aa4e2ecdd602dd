"""The deterministic certificate of a network with a known Lipschitz constant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from holdfast.ensembles.composite import Pair
from holdfast.errors import ModelError
from holdfast.lipschitz.bound import margin_growth
from holdfast.lipschitz.radii import margin_radius
from holdfast.modes import evaluating
from holdfast.queries import network
from holdfast.rng import Streams
from holdfast.types import ABSTAIN, Certificate, Classifier


@dataclass(frozen=True, kw_only=True)
class Margin:
    r"""Margin certified radius (MCR): no point nearer than this has another prediction.

    .. math:: r = \frac{o_c - \max_{i \ne c} o_i}{\alpha_p K_p}, \qquad \alpha_p = 2^{1/q},\ 1/p + 1/q = 1

    for the predicted class :math:`c` of a network that is :math:`K_p`-Lipschitz in :math:`\ell_p`, since the margin
    changes by at most :math:`\alpha_p K_p` per unit of distance. A network that is :math:`K_2`-Lipschitz in
    :math:`\ell_2` also has, in :math:`D` dimensions, :math:`\alpha_2 K_2` for :math:`\ell_1` and
    :math:`\alpha_2 K_2 \sqrt D` for :math:`\ell_\infty`; the smaller constant counts. The network is taken in
    evaluation mode, whatever mode it is in.

    Args:
        norm: of distances.
        constant: :math:`K_p` if it is known otherwise; None computes the bound of `lipschitz_bound` from the weights.

    Reference:
        Tsuzuku, Sato, Sugiyama, Lipschitz-Margin Training, NeurIPS 2018, arXiv:1802.04034.
        Crespo, Teramae, Smoothed Robustness Analysis, TMLR, equation 6 and proposition 5.
    """

    norm: Literal["l1", "l2", "linf"] = "l2"
    constant: float | None = None

    def __post_init__(self) -> None:
        check_constant(self.constant)

    @property
    def smoothed(self) -> bool:
        """It speaks of the network itself."""
        return False

    def __call__(self, model: Classifier, x: Tensor, *, rng: Streams | None = None) -> Certificate:
        """Certificate of each example; of two classes with equal logits neither is certified."""
        if not len(x):
            return Certificate.of_nothing(x)
        check_bounded(model, self.constant)
        with torch.no_grad(), evaluating(network(model)):
            growth = margin_growth(model, x, self.norm, self.constant)
            logits = model(x)
        if logits.dim() != 2 or logits.shape[1] < 2:
            raise ModelError(f"margin: expected logits of two classes or more; got shape {tuple(logits.shape)}")
        radius, prediction = margin_radius(logits, growth)
        return Certificate(torch.where(radius > 0, prediction, ABSTAIN), radius)


def check_constant(constant: float | None) -> None:
    """Refuse what is no Lipschitz constant."""
    if constant is not None and not 0 < constant < math.inf:
        raise ValueError(f"constant must be positive and finite, got {constant}")


def check_bounded(model: Classifier, constant: float | None) -> None:
    """Refuse composites, whose Lipschitz constants nobody knows, and say what proves something of them."""
    inner = network(model)
    if constant is None and isinstance(inner, Pair):
        kind = type(inner).__name__
        raise ModelError(
            f"expected a network with a known Lipschitz constant, got {kind}; of a composite of mixed probabilities "
            "mixture_margin proves what the robust network allows"
        )
