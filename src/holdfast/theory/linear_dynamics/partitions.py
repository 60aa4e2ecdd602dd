r"""Where signGD goes from a pair (A, B): the partitions R, near the end, and P, on the way there (figures 4.8 and 4.9).

Lengths are in units of :math:`\sigma_0^2\eta`, the longest step of A: `a` and `b` are A and B in these units, and
`slope` is :math:`\sigma_1^2 / \sigma_0^2`, the longest step of B.

Different from what is printed:

- From R31 the pair goes to R12 and back for ever: the regions called stationary are not closed, and the bound of
  :math:`|A|` there is 1, not 2/3.
- In R22 the bound of :math:`|B|` is 1/2, which exceeds the printed :math:`\sigma_1^2\eta` for slopes below 1/2.
- The count of P4 in proposition 4.D.7 holds for slopes up to 2.
- For slopes below 1/3 regions of R overlap, and nothing is left for R34. Equation 4.28, which is about such slopes,
  does not need R.

Reference:
    Ma, thesis, appendix 4.D.2: propositions 4.D.4 and 4.D.7.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.theory.linear_dynamics.problem import Problem
from holdfast.theory.linear_dynamics.signs import longest_steps, sign_terms

Regions = dict[str, Tensor]
"""Which pairs lie in each region, (...), bool; none lies on a border."""

STATIONARY = ("R22", "R31", "R32", "R33", "R34")
"""Regions of which one is reached within three steps from :math:`|A| < 1`."""


def sign_step(a: Tensor, b: Tensor, slope: float) -> tuple[Tensor, Tensor]:
    """One step of signGD."""
    plus, minus = (a + b).sign(), (a - b).sign()
    return a - (plus + a.sign() + minus) / 3, b - slope * (plus - minus) / 2


def end_regions(a: Tensor, b: Tensor, slope: float) -> Regions:
    """The partition R of :math:`|A| < 1`."""
    x, y = a.abs(), b.abs()
    outer, middle, inner = (x > 2 / 3) & (x < 1), (x > 1 / 3) & (x < 2 / 3), x < 1 / 3
    returns = (1 - x) > y  # the other end of a long step is as far beyond B
    regions = {
        "R11": outer & (x < y),
        "R12": outer & (x > y),
        "R21": middle & (x < y),
        "R22": middle & (x > y) & returns,
        "R23": middle & (x > y) & ~returns,
        "R31": inner & (x > y),
        "R32": inner & (x > _distance_to_even(y, slope)),
        "R33": inner & (x + _distance_to_odd(y, slope) < 1 / 3),
    }
    return regions | {"R34": inner & ~(regions["R31"] | regions["R32"] | regions["R33"])}


def start_regions(a: Tensor, b: Tensor, slope: float) -> Regions:
    """The partition P of all pairs: P3 and P4 for slopes above 1/3, P5 and P6 for slopes below."""
    x, y = a.abs(), b.abs()
    far = (x > 1) & (y > 1)
    border = 3 * slope * (x - 1) + 1 if slope > 1 / 3 else x
    above, below = ("P3", "P4") if slope > 1 / 3 else ("P5", "P6")
    return {"P1": x < 1, "P2": (x > 1) & (y < 1), above: far & (y > border), below: far & (y < border)}


def pair(problem: Problem, w: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """A and B of weights in units of the longest step of A."""
    a, b = sign_terms(problem, w)
    unit, _ = longest_steps(problem, rate)
    return a / unit, b / unit


def require_slope(slope: float) -> None:
    """Refuse slopes above 2: a step of B may end farther from 0 than A is, and the count of P4 has no bound."""
    if not 0 < slope <= 2:
        raise ValueError(f"expected a second variance above 0 and at most twice the first, got {slope:.4g} times")


def predicted_moving_steps(a: Tensor, b: Tensor, slope: float) -> tuple[Tensor, Tensor]:
    """Least and greatest possible `moving_steps` from a pair, (...): proposition 4.D.7, rounded to whole steps.

    Printed are the lower end for P3 and P5, the upper end less 1 for P6, and for P4 an interval whose upper end is
    less by 1: the last step may start above the border and end below it.
    """
    require_slope(slope)
    x, y = a.abs(), b.abs()
    regions = start_regions(a, b, slope)
    if slope > 1 / 3:
        above, low, high = regions["P3"], (y - 2) / slope, (y - 1) / slope + 1
    else:
        above, low, high = regions["P5"], 3 * (y - 2), 3 * (y - 1) + 1
    low, high = torch.where(above, 3 * (x - 1), low), torch.where(above, 3 * (x - 1) + 1, high)
    near = regions["P1"] | regions["P2"]
    return torch.where(near, 0, low.clamp(min=0)), torch.where(near, 0, high)


def limits(slope: float) -> tuple[float, float]:
    r"""Bounds of :math:`|e_0|` and :math:`|e_1|` in the end, in learning rates.

    :math:`\sqrt3` and :math:`\max(\sqrt2, \frac{\sqrt2}2 / \mathrm{slope})`. Remark 4.D.5 prints
    :math:`\frac{2\sqrt3}3` and :math:`\sqrt2`, which both are exceeded.
    """
    return math.sqrt(3), max(math.sqrt(2), math.sqrt(2) / (2 * slope))


def _distance_to_even(y: Tensor, slope: float) -> Tensor:
    """From y >= 0 to the nearest of 2, 4, ... longest steps of B, in either direction from 0."""
    return (y - 2 * slope * (y / (2 * slope)).round().clamp(min=1)).abs()


def _distance_to_odd(y: Tensor, slope: float) -> Tensor:
    """From y >= 0 to the nearest of 1, 3, ... longest steps of B."""
    return (y - slope * (2 * (y / (2 * slope)).floor() + 1)).abs()
