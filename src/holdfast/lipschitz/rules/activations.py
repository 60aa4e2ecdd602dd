"""Activations: the largest slope of each."""

from __future__ import annotations

from typing import Any

from holdfast.lipschitz.activations import Householder
from holdfast.lipschitz.norms import double
from holdfast.lipschitz.site import Site, Value
from holdfast.lipschitz.slopes import ACTIVATIONS


def activated(name: str, site: Site, value: Value, *args: Any, **kwargs: Any) -> Value:
    """The activation of that name, with its options."""
    return site.times(value, ACTIVATIONS[name](*args, **kwargs))


def householder(module: Householder, site: Site, value: Value) -> Value:
    r"""A reflection has row and column sums :math:`|\cos\theta| + |\sin\theta|`."""
    angle = double(module.angle)
    sums = (angle.cos().abs() + angle.sin().abs()).amax().item() if len(angle) else 1.0
    return site.times(value, 1.0 if site.norm == "l2" else max(1.0, sums))
