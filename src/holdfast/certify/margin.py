"""The deterministic certificate of a network with a known Lipschitz constant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from holdfast.ensembles.composite import Pair
from holdfast.errors import ModelError
from holdfast.lipschitz.margins import exact_network, margin_bound, margin_growth
from holdfast.lipschitz.precision import PRECISIONS, logits_in_float64, require_precision
from holdfast.lipschitz.radii import Norm, margin_radius
from holdfast.lipschitz.rounding import double
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.types import ABSTAIN, Certificate, Classifier
from holdfast.wrappers import behind, network


@dataclass(frozen=True, kw_only=True)
class Margin:
    r"""Margin certified radius (MCR): no point nearer than this has another prediction.

    .. math:: r = \min_{j \ne c} \frac{o_c - o_j}{G_{cj}} \ \ge\
              \frac{o_c - \max_{j \ne c} o_j}{\alpha_p K_p}, \qquad \alpha_p = 2^{1/q},\ 1/p + 1/q = 1

    for the predicted class :math:`c` of a network that is :math:`K_p`-Lipschitz in :math:`\ell_p`. A difference of two
    logits changes by at most :math:`G_{cj} \le \alpha_p K_p` per unit of distance; :math:`G` is made of the norms of
    the differences of the last layer's rows, see `lipschitz.pairs`. A network that is :math:`K_2`-Lipschitz in
    :math:`\ell_2` also has, in :math:`D` dimensions, its :math:`G` for :math:`\ell_1` and :math:`\sqrt D` times that
    for :math:`\ell_\infty`; the smaller one counts. The network is taken in evaluation mode, whatever mode it is in.

    The certificate holds in exact arithmetic of the weights as they are stored: logits are computed in float64, a bound
    of their rounding is taken off, and everything else is rounded outward, see `lipschitz.margins`. What the network
    computes in float32 differs from that by its own rounding, about :math:`10^{-6}` of its logits.

    Args:
        norm: of distances.
        constant: :math:`K_p` if it is known otherwise; None computes the bounds from the weights. Of a network with a
            constant of its own, rounding is estimated, not bounded.

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
        """It is about the network itself."""
        return False

    @property
    def bound_in(self) -> Norm | None:
        """The norm in which the network needs a known Lipschitz constant."""
        return self.norm if self.constant is None else None

    @in_evaluation_mode
    def __call__(self, model: Classifier, x: Tensor, *, rng: Streams | None = None) -> Certificate:
        """Certificate of each example; of two classes with equal logits neither is certified."""
        if not len(x):
            return Certificate.of_nothing(x)
        check_bounded(model, self.constant)
        bounded = bounded_logits(model, x, self.norm, self.constant)
        radius, prediction = margin_radius(*bounded)
        return Certificate(torch.where(radius > 0, prediction, ABSTAIN).to(x.device), radius)


class BoundedLogits(NamedTuple):
    """Logits in float64, (N, K), how fast their differences change, (K, K), and how far these may be off, (N,)."""

    logits: Tensor
    growth: Tensor
    rounding: Tensor


def bounded_logits(model: Classifier, x: Tensor, norm: Norm, constant: float | None) -> BoundedLogits:
    """The logits of each example, with what is known of their differences.

    Raises:
        ModelError: if there is no bound, or the logits are no finite numbers of two classes or more.
    """
    with torch.no_grad():
        computed = exact(model, constant)(x)
        check_logits(computed, "margin")
        logits = double(computed)
        if constant is None:
            bound = margin_bound(model, x, norm)
            return BoundedLogits(logits, bound.growth, bound.rounding(x))
        growth = logits.new_full((logits.shape[1],) * 2, margin_growth(model, x, norm, constant))
        return BoundedLogits(logits, growth, ESTIMATED * torch.finfo(computed.dtype).eps * logits.abs().amax(1))


ESTIMATED = 64.0
"""Machine epsilons of the largest logit that are taken off where the rounding has no bound."""


def exact(model: Classifier, constant: float | None = None) -> Classifier:
    """The model with its network in float64, still counted and timed by what watches it.

    If its constant is given, what cannot be copied to float64 is asked in its own precision.
    """
    require_precision(network(model), "margin")
    try:
        copied = exact_network(model)
    except ModelError:
        if constant is None:
            raise
        return model
    return behind(model, lambda inner: lambda z: logits_in_float64(copied, z))


def check_logits(logits: Tensor, who: str) -> None:
    """Refuse what proves nothing: a single logit, a coarse one, or none at all."""
    if logits.dim() != 2 or logits.shape[1] < 2:
        raise ModelError(f"{who}: expected logits of two classes or more; got shape {tuple(logits.shape)}")
    if logits.dtype not in PRECISIONS:
        kind = str(logits.dtype).removeprefix("torch.")
        raise ModelError(f"{who}: expected logits in float32 or float64, got {kind}")
    if bad := (~logits.isfinite().all(1)).nonzero()[:, 0].tolist():
        what = "NaN" if bool(logits[bad[0]].isnan().any()) else "infinite"
        raise ModelError(
            f"{who}: the logits are {what} for {len(bad)} of {len(logits)} examples, first at row {bad[0]} of the batch"
        )


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
