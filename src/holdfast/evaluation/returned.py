"""What third-party methods return: refused before it counts where it breaks their protocol."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.traits import threat_of, unwrapped
from holdfast.types import Certificate

SLACK = 2e-6
"""How far rounding in float32 may carry a point outside, relative to eps and to the length of the box's diagonal."""


def require_points(attack: Any, z: Any, x: Tensor, index: Tensor) -> Tensor:
    """Refuse points outside the threat set and the box; those of holdfast's own attacks are inside by their contract.

    Args:
        attack: what made the points; wrappers around third-party attacks are looked into.
        z: what it returned.
        x: the images.
        index: of the examples, for the message.

    Raises:
        ModelError: saying what came, and for which example first.
    """
    if all(_is_ours(each) for each in unwrapped(attack)):
        return z  # type: ignore[no-any-return]
    name, expected = type(attack).__name__, f"{tuple(x.shape)} in {x.dtype} on {x.device}"
    if not isinstance(z, Tensor):
        raise ModelError(f"{name}: expected points of shape {expected}; got {_kind(z)}")
    if (z.shape, z.dtype, z.device) != (x.shape, x.dtype, x.device):
        raise ModelError(
            f"{name}: expected points of shape {expected}; got {tuple(z.shape)} in {z.dtype} on {z.device}"
        )
    threat = threat_of(attack)
    with torch.no_grad():
        distance = threat.distance(z, x)
    slack = max(SLACK, 16 * torch.finfo(x.dtype).eps) * (threat.eps + len(x[0].flatten()) ** 0.5)
    far, out = ~(distance <= threat.eps + slack), ~((z >= 0) & (z <= 1)).flatten(1).all(1)
    if bad := (far | out).nonzero().flatten().tolist():
        worst = bad[0]
        got = f"distance {float(distance[worst]):.6g}" if far[worst] else f"values from {_range(z[worst])}"
        raise ModelError(
            f"{name}: expected points within eps={threat.eps:g} and [0, 1]; got {got} at example {int(index[worst])}"
        )
    return z


def require_certificate(certifier: Any, certificate: Any, count: int) -> Certificate:
    """Refuse what is no certificate of a batch of so many images.

    Raises:
        ModelError: saying what came.
    """
    name = type(certifier).__name__
    if not isinstance(certificate, Certificate):
        raise ModelError(f"{name}: expected a Certificate; got {_kind(certificate)}")
    for part in ("prediction", "radius"):
        value = getattr(certificate, part)
        if not isinstance(value, Tensor) or value.shape != (count,):
            got = tuple(value.shape) if isinstance(value, Tensor) else _kind(value)
            raise ModelError(f"{name}: expected {part} of shape ({count},); got {got}")
    return certificate


def _is_ours(method: Any) -> bool:
    return type(method).__module__.partition(".")[0] == "holdfast"


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _range(z: Tensor) -> str:
    return f"{float(z.min()):.6g} to {float(z.max()):.6g}"
