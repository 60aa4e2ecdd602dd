r"""How fast the margins of a network grow, pair by pair, and its logits in float64 with a bound of their rounding.

A margin certificate compares the logits :math:`o(x)` of exact arithmetic with the weights as they are stored. What is
computed, :math:`\hat o(x)`, is off by at most :math:`\|\hat o(x) - o(x)\|_p \le a + b \|x\|_p`. The numbers
:math:`a, b` follow from the graph like the Lipschitz bound itself: a layer that makes differences at most :math:`k`
times longer makes errors at most :math:`k` times longer, and adds the rounding of its own sums, :math:`\gamma_n` times
the absolute values that they add up. Those are at most
:math:`\bigl\||A|\bigr\|_p \bigl(\|v(0)\|_p + K \|x\|_p\bigr)` for a matrix :math:`A` after a value :math:`v`
with the bound :math:`K`. A difference of two logits is off by :math:`\alpha_p` times as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError, unknown
from holdfast.lipschitz.bound import followed
from holdfast.lipschitz.norms import ORDER
from holdfast.lipschitz.precision import Promoted, in_float64, require_precision
from holdfast.lipschitz.radii import ALPHA, Norm
from holdfast.lipschitz.rounding import ELEMENTARY, Rounding, double, gamma
from holdfast.lipschitz.tally import Tally
from holdfast.modes import evaluating
from holdfast.types import Classifier
from holdfast.wrappers import network


@dataclass(frozen=True, eq=False)
class MarginBound:
    """Bounds for the logits of a network, for one norm of distances.

    Args:
        growth: how much the difference of two logits can change per unit of distance, (K, K).
        roundings: by norm of the images, the error bound of a difference of two logits computed in float64; the
            smallest is used.
    """

    growth: Tensor
    roundings: dict[Norm, Rounding]

    def rounding(self, x: Tensor, further: dict[Norm, float] | None = None) -> Tensor:
        """Error bound of differences of logits, (N,), float64.

        Args:
            x: the images, (N, ...).
            further: by norm, how much longer the images may have become before they reached the network.
        """
        flat = double(x).flatten(1)
        bounds = [
            rounding.at(torch.linalg.vector_norm(flat, ORDER[norm], dim=1) + (further or {}).get(norm, 0.0))
            for norm, rounding in self.roundings.items()
        ]
        return torch.stack(bounds).amin(0)


def margin_bound(model: Classifier, x: Tensor, norm: Norm) -> MarginBound:
    r"""Bounds of all differences of two logits from the weights, by rows of the last layer.

    Since :math:`\|\delta\|_2 \le \|\delta\|_1` and :math:`\|\delta\|_2 \le \sqrt D\,\|\delta\|_\infty` for
    :math:`D` values, a bound in :math:`\ell_2` is one in :math:`\ell_1`, and :math:`\sqrt D` times it is one in
    :math:`\ell_\infty`; the smaller one is used. None is above :math:`\alpha_p K_p`; see `pairs`.

    Args:
        model: the network.
        x: images, for their size.
        norm: of distances.

    Raises:
        ModelError: as `lipschitz_bound`, and for networks coarser than float32.
    """
    if norm not in ORDER:
        raise ValueError(f"margin_bound: norm: {unknown(norm, ORDER)}")
    direct = _of(model, x, norm)
    if norm == "l2":
        return direct
    euclidean = _of(model, x, "l2")
    longest = {"l1": 1.0, "linf": math.sqrt(x[0].numel())}[norm] * (1 + gamma(ELEMENTARY))
    growth = torch.minimum(direct.growth, longest * euclidean.growth)
    return MarginBound(growth, {**direct.roundings, **euclidean.roundings})


def margin_growth(model: Classifier, x: Tensor, norm: Norm, constant: float | None = None) -> float:
    r"""How much the margin :math:`\max_{i \ne c} o_i - o_c` can grow per unit of distance, for any class :math:`c`.

    Args:
        model: the network.
        x: images, for their size.
        norm: of distances.
        constant: :math:`K_p` if it is known; None computes the bounds from the weights, see `margin_bound`.
    """
    if norm not in ORDER:
        raise ValueError(f"margin_growth: norm: {unknown(norm, ORDER)}")
    if constant is None:
        return float(margin_bound(model, x, norm).growth.amax())
    if not 0 < constant < math.inf:
        raise ValueError(f"margin_growth: constant must be positive and finite, got {constant}")
    return ALPHA[norm] * constant


def exact_network(model: Classifier) -> nn.Module:
    """The network without wrappers that watch it, in float64."""
    inner = network(model)
    if not isinstance(inner, nn.Module):
        raise ModelError(f"lipschitz bound: expected an nn.Module, got a {type(inner).__name__}")
    require_precision(inner, "lipschitz bound")
    copied: nn.Module = _remembered((id(inner), "float64"), lambda: _copied(inner))
    return copied


def _copied(model: nn.Module) -> nn.Module:
    try:
        with evaluating(model):
            return in_float64(model)
    except (RuntimeError, TypeError) as error:
        line = str(error).partition("\n")[0]
        raise ModelError(f"lipschitz bound: expected a network that can be copied to float64: {line}") from error


BoundsCache = dict[tuple[Any, ...], Any]
"""Bounds and copies of networks that do not change, see `unchanging`."""

_CACHE: ContextVar[BoundsCache | None] = ContextVar("bounds", default=None)


@contextmanager
def unchanging(cache: BoundsCache) -> Iterator[None]:
    """Keep bounds and copies of networks in a dictionary, and reuse them, within this context.

    For use where no network changes or is deleted as long as the dictionary lives.
    """
    token = _CACHE.set(cache)
    try:
        yield
    finally:
        _CACHE.reset(token)


def _of(model: Classifier, x: Tensor, norm: Norm) -> MarginBound:
    key = (id(network(model)), norm, x.shape[1:], x.dtype, x.device)
    bound: MarginBound = _remembered(key, lambda: _measured(exact_network(model), x, norm))
    return bound


def _remembered(key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    cache = _CACHE.get()
    if cache is None:
        return make()
    if key not in cache:
        cache[key] = make()
    return cache[key]


def _measured(copied: nn.Module, x: Tensor, norm: Norm) -> MarginBound:
    """The bound by one norm alone."""
    tally = Tally(norm)
    with Promoted():
        logits = followed(tally, copied, double(x))
        if logits.tensor.dim() != 2 or logits.tensor.shape[1] < 2:
            shape = ", ".join(["N", *map(str, logits.tensor.shape[1:])])
            raise ModelError(f"lipschitz bound: expected logits of two classes or more; got shape ({shape})")
        growth = tally.differences(logits)()
    return MarginBound(growth, {norm: logits.rounding * ALPHA[norm]})
