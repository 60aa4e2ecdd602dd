"""Activations: the largest slope of each; log-softmax, and maxima of two values."""

from __future__ import annotations

import math
from typing import Any

import torch

from holdfast.lipschitz.activations import Householder
from holdfast.lipschitz.norms import concatenated
from holdfast.lipschitz.rounding import ELEMENTARY, double
from holdfast.lipschitz.rules.options import spread
from holdfast.lipschitz.slopes import ACTIVATIONS
from holdfast.lipschitz.tally import Site
from holdfast.lipschitz.values import Value


def activated(name: str, site: Site, value: Value, *args: Any, **kwargs: Any) -> Value:
    """The activation of that name, with its options."""
    return site.times(value, ACTIVATIONS[name](*args, **kwargs), ELEMENTARY)


def householder(module: Householder, site: Site, value: Value) -> Value:
    r"""A reflection has row and column sums :math:`|\cos\theta| + |\sin\theta|`."""
    angle = double(module.angle)
    sums = (angle.cos().abs() + angle.sin().abs()).amax().item() if len(angle) else 1.0
    return site.times(value, 1.0 if site.norm == "l2" else sums, ELEMENTARY)


def log_softmax(
    site: Site, value: Value, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Value:
    r"""Subtract the same number from each of :math:`K` logits: all differences stay as they are.

    Its Jacobian :math:`I - \mathbf{1} p^\top` has rows of :math:`2 (1 - p_i) \le 2` and columns of
    :math:`1 + (K - 2)\,p_j \le \max(1, K - 1)`. It is a projector, as long as its complement:
    :math:`\|\mathbf{1} p^\top\|_2 = \sqrt K\,\|p\|_2 \le \sqrt K`.
    """
    if dim is None or dim % value.tensor.dim() == 0:
        raise site.refuse("expected a dimension other than that of the examples")
    classes = value.tensor.shape[dim]
    factor = {"l1": max(1.0, classes - 1.0), "l2": math.sqrt(classes), "linf": 2.0}[site.norm] if classes > 1 else 0.0
    pairs = site.tally.differences(value) if value.tensor.dim() == 2 else None
    return site.times(value, factor, classes + ELEMENTARY, pairs)


def larger(site: Site, a: Any, b: Any) -> Value:
    r"""The larger or smaller of two values: :math:`|\max(a, b) - \max(a', b')| \le \max(|a - a'|, |b - b'|)`."""
    parts = [(each, spread(site, each)) for each in (a, b) if isinstance(each, Value)]
    return site.joined(parts, lambda bounds: concatenated(bounds, site.norm))
