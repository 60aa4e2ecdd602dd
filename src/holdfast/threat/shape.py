"""Helpers for per-example quantities next to tensors of any trailing shape."""

from __future__ import annotations

import math

from torch import Tensor


def per_example(values: Tensor, like: Tensor) -> Tensor:
    """View (N,) as (N, 1, ..., 1) so that it broadcasts against `like`."""
    return values.view(-1, *[1] * (like.dim() - 1))


def radii(radius: float | Tensor, like: Tensor) -> float | Tensor:
    """One radius for all as it is, one per example (N,) as (N, 1, ..., 1)."""
    return per_example(radius, like) if isinstance(radius, Tensor) else radius


def room(x: Tensor, direction: Tensor) -> Tensor:
    """How far each coordinate of `x` can move in `direction` before it leaves [0, 1]."""
    return (1 - x).where(direction >= 0, x)


def checked_eps(name: str, eps: float) -> None:
    """Refuse a radius that is not a positive number."""
    if not (math.isfinite(eps) and eps > 0):
        raise ValueError(f"{name}: eps must be a positive number, got {eps!r}")
