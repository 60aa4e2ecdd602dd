r"""SPIDER: isotropic noise of random length, and labels that are softened with the length."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from holdfast.errors import RecipeError
from holdfast.rng import Streams, streams
from holdfast.threat.l2 import norm, rescale
from holdfast.threat.shape import per_example


@dataclass(frozen=True, kw_only=True)
class Spider:
    r"""Move each image by a random length in a random direction, and soften its label the more, the farther it moved.

    .. math:: z = \mathrm{clip}(x + \eta d), \quad d \sim N(0, I), \quad r \sim p_\gamma, \quad
        \eta : \|z - x\|_2 = r

    The label's class keeps probability :math:`s(\|z - x\|_2)` and the other :math:`c - 1` classes share the rest
    evenly. The direction is uniform on the sphere; :math:`\eta` compensates for the clipping (`rescale`). Where the
    cube has no point that far in that direction, the length reached softens the label.

    :math:`\tau = 0` leaves images and labels alone: plain training.

    Args:
        tau: :math:`\tau`, scale of the lengths, in the Euclidean norm of images in [0, 1].
        xi: :math:`\xi`, the probability that the label keeps above chance at :math:`\tau`: :math:`s(\tau) = 1/c + \xi`.
            At most :math:`1 - 1/c`, where nothing is softened.
        radius: :math:`p_\gamma`: `uniform` in :math:`[0, \tau]`, `half_normal` of scale :math:`\tau`, `exponential` of
            mean :math:`\tau`, or `fixed` at :math:`\tau` (not a decreasing density, which the theory requires).
        smoothing: :math:`s`: `exponential` falls to chance, :math:`1/c + (1 - 1/c)(\xi / (1 - 1/c))^{r / \tau}`;
            `geometric` is :math:`(1/c + \xi)^{r / \tau}`, for lengths up to :math:`\tau` only; `constant` is
            :math:`1/c + \xi` whatever the length, as in plain label smoothing; `none` leaves labels alone.

    Reference:
        The appendix of the paper on SPIDER, whose main text was not available. It states that the density of the length
        decreases and that :math:`s` is exponential with :math:`s(\tau) = 0.5` at :math:`\xi = 0.4` for 10 classes and
        0.49 for 100. That lengths are uniform, and the rest of the exponential's form, is reconstructed; hence the
        choices.
    """

    tau: float = 5.0
    xi: float = 0.4
    radius: Literal["uniform", "half_normal", "exponential", "fixed"] = "uniform"
    smoothing: Literal["exponential", "geometric", "constant", "none"] = "exponential"

    def __post_init__(self) -> None:
        if not 0 <= self.tau < math.inf:
            raise ValueError(f"tau: expected a finite length, not negative, got {self.tau}")
        if not 0 <= self.xi < 1:
            raise ValueError(f"xi: expected a number in [0, 1 - 1/classes], got {self.xi}")
        if self.radius not in RADII:
            raise ValueError(f"radius: expected one of {', '.join(RADII)}, got {self.radius!r}")
        if self.smoothing != "none" and self.smoothing not in SMOOTHINGS:
            raise ValueError(f"smoothing: expected one of {', '.join(SMOOTHINGS)}, none, got {self.smoothing!r}")
        if self.smoothing == "geometric" and self.radius not in BOUNDED:
            raise ValueError(
                f"smoothing: geometric needs lengths up to tau, radius {' or '.join(BOUNDED)}, got {self.radius!r}"
            )

    @property
    def softens(self) -> bool:
        """Whether labels change."""
        return self.tau > 0 and self.smoothing != "none"

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """The moved images, (N, C, H, W) as `x`."""
        rng = streams(rng, x)
        if self.tau == 0:
            return x
        radius = RADII[self.radius](rng, x.new_empty(len(x)), self.tau)
        direction = rng.normal(x)
        return (x + per_example(rescale(x, direction, radius), x) * direction).clamp_(0, 1)

    def confidence(self, z: Tensor, x: Tensor, classes: int) -> Tensor:
        """Probability that the label's class keeps, (N,), by the distance that each image was moved."""
        if self.xi > (1 - 1 / classes) * (1 + 1e-6):
            raise RecipeError(f"spider.xi: expected at most 1 - 1/{classes} for {classes} classes, got {self.xi}")
        r = norm((z - x).flatten(1))
        return SMOOTHINGS[self.smoothing](r, self.tau, self.xi, classes) if self.softens else torch.ones_like(r)


def uniform(rng: Streams, like: Tensor, tau: float) -> Tensor:
    r""":math:`r \sim U(0, \tau)`."""
    return rng.uniform(like) * tau


def half_normal(rng: Streams, like: Tensor, tau: float) -> Tensor:
    r""":math:`r = \tau |g|`, :math:`g \sim N(0, 1)`."""
    return rng.normal(like).abs_() * tau


def exponential(rng: Streams, like: Tensor, tau: float) -> Tensor:
    r""":math:`r = -\tau \log(1 - v)`, :math:`v \sim U(0, 1)`."""
    # In float64 and rounded once, so that it does not depend on which elements a vectorised logarithm takes together.
    return (-tau * torch.log1p(-rng.uniform(like.double()))).to(like)


def fixed(rng: Streams, like: Tensor, tau: float) -> Tensor:
    r""":math:`r = \tau`."""
    return torch.full_like(like, tau)


def exponential_confidence(r: Tensor, tau: float, xi: float, classes: int) -> Tensor:
    r""":math:`s(r) = \frac1c + (1 - \frac1c) \bigl(\frac{\xi}{1 - 1/c}\bigr)^{r/\tau}`: convex, falls to chance."""
    above = 1 - 1 / classes
    kept: Tensor = torch.pow(min(xi / above, 1.0), r / tau)
    return 1 / classes + above * kept


def geometric_confidence(r: Tensor, tau: float, xi: float, classes: int) -> Tensor:
    r""":math:`s(r) = (\frac1c + \xi)^{r/\tau}`: falls below chance far beyond :math:`\tau`."""
    kept: Tensor = torch.pow(min(1 / classes + xi, 1.0), r / tau)
    return kept


def constant_confidence(r: Tensor, tau: float, xi: float, classes: int) -> Tensor:
    r""":math:`s = \frac1c + \xi`, whatever the length."""
    return torch.full_like(r, min(1 / classes + xi, 1.0))


RADII: dict[str, Callable[[Streams, Tensor, float], Tensor]] = {
    "uniform": uniform,
    "half_normal": half_normal,
    "exponential": exponential,
    "fixed": fixed,
}
"""Laws of the lengths, as functions of streams, a tensor (N,) to match, and tau."""

BOUNDED = ("uniform", "fixed")
"""Laws whose lengths do not exceed tau."""

SMOOTHINGS: dict[str, Callable[[Tensor, float, float, int], Tensor]] = {
    "exponential": exponential_confidence,
    "geometric": geometric_confidence,
    "constant": constant_confidence,
}
"""Probability that the label's class keeps, as a function of lengths (N,), tau, xi and the number of classes."""
